package module

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// values implements [hook.Values] with fixed replies. It records the calls of GetValue and SetValue
// in asked.
type values struct{ asked []string }

var errNoDatabase = errors.New("dial tcp: connection refused")

func (v *values) GetValue(_ context.Context, s hook.ValueScope, key string) (contract.LocalValue, bool, error) {
	v.asked = append(v.asked, "get "+s.Tenant+"/"+s.Entry+"/"+key)
	return contract.LocalValue{Value: json.RawMessage(`7`), Version: 3}, true, nil
}

func (v *values) SetValue(
	_ context.Context,
	s hook.ValueScope,
	key string,
	value json.RawMessage,
	version int64,
	ttl time.Duration,
) (int64, error) {
	v.asked = append(v.asked, "set "+s.Tenant+"/"+s.Entry+"/"+key)
	return 4, nil
}

func (v *values) DeleteValue(_ context.Context, s hook.ValueScope, key string) error {
	return errNoDatabase
}

func (v *values) AddValue(context.Context, hook.ValueScope, string, int64) (int64, error) {
	return 0, &abi.Error{Code: abi.CodeLimit, Message: "no more"}
}

// TestStore checks the replies of the imports for durable values.
func TestStore(t *testing.T) {
	t.Parallel()
	m := load(t, "puppet.wasm", policy.Limits{})
	replies := func(letter string, o hook.Options) ([]string, []string) {
		mw, err := Configure(t.Context(), m, "guard", []byte(do(letter)), policy.Grants{Store: true})
		require.NoError(t, err)
		defer mw.Close()
		c, err := chain.New(hook.Entry{Name: "guard", Middleware: mw})
		require.NoError(t, err)
		host := &fakeHost{}
		r, err := c.With(o).Open(t.Context(), abi.Run{ID: "run-1"}, host, local.New())
		require.NoError(t, err)
		defer r.Close()
		_, err = (&testRun{r, host}).beforeAgent(t)
		require.NoError(t, err)
		return host.customs(), host.logs()
	}
	for _, letter := range []string{"6", "7", "8", "9"} {
		got, _ := replies(letter, hook.Options{})
		require.Equal(t, []string{`error {"code":"unavailable","message":"this host has no store for durable values"}`}, got)
	}
	v := &values{}
	o := hook.Options{Values: v, Tenant: "t"}
	for letter, want := range map[string]string{
		"6": `reply {"value":7,"version":3}`,
		"7": `reply {"version":4}`,
		"8": `error {"code":"unavailable","message":"the store of durable values is not available","retryable":true}`,
		"9": `error {"code":"limit","message":"no more"}`,
	} {
		got, logs := replies(letter, o)
		require.Equal(t, []string{want}, got)
		require.Equal(t, letter == "8", len(logs) == 1, "what went wrong is the operator's business: %v", logs)
	}
	require.ElementsMatch(t, []string{"get t/guard/", "set t/guard/"}, v.asked)
}
