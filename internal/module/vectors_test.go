package module

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// A vector is one file of testdata/abi, with a hook's input and a module's answer. The tests of
// hosts and SDKs use the same files.
type vector struct {
	Hook     abi.Hook        `json:"hook"`
	About    string          `json:"about"`
	Messages []abi.Message   `json:"messages"`
	Input    json.RawMessage `json:"input"`
	Next     []struct {
		Patch json.RawMessage `json:"patch"`
		Reply json.RawMessage `json:"reply"`
		Error json.RawMessage `json:"error"`
	} `json:"next"`
	Stream []struct {
		Call  string          `json:"call"`
		Given json.RawMessage `json:"given"`
		Reply json.RawMessage `json:"reply"`
		Error json.RawMessage `json:"error"`
	} `json:"stream"`
	Answer json.RawMessage `json:"answer"`
	Error  json.RawMessage `json:"error"`
}

// shapeOf returns the types of the input and the answer of a hook. The result ok is false if the
// chain does not call the hook.
func shapeOf(h abi.Hook) (shape [2]any, ok bool) {
	if !slices.Contains(calledHooks(), h) {
		return shape, false
	}
	in, answer := contract.Exchange(h)
	return [2]any{reflect.ValueOf(in).Elem().Interface(), reflect.ValueOf(answer).Elem().Interface()}, true
}

func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, raw))
	return b.String()
}

// TestVectors checks that a module receives the input of each vector byte for byte. It also checks
// that the host receives the answer of each vector unchanged.
func TestVectors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/abi/*.json")
	require.NoError(t, err)
	met := map[abi.Hook]bool{}
	loaded, err := loadBytes(t, everyHook(t, "mirror.wasm"), policy.Limits{})
	require.NoError(t, err)
	mirror := configure(t, loaded, "")
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var v vector
		unknown, err := abijson.Decode(b, &v)
		require.NoError(t, err, file)
		require.Empty(t, unknown, file)
		shape, ok := shapeOf(v.Hook)
		if !ok {
			continue // describe and configure have their own tests
		}
		met[v.Hook] = true
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			vectorInput(t, mirror, &v, reflect.TypeOf(shape[0]))
			vectorAnswer(t, &v, shape)
		})
	}
	for _, hook := range calledHooks() {
		require.True(t, met[hook], "no vector of %s", hook)
	}
}

// vectorInput checks that the module receives exactly the vector's bytes.
func vectorInput(t *testing.T, mirror *Middleware, v *vector, shape reflect.Type) {
	t.Helper()
	in := reflect.New(shape).Interface()
	_, err := abijson.Decode(v.Input, in)
	require.NoError(t, err)
	s := &session{mw: mirror, entry: "guard", run: "run-7"}
	inv, err := s.invocation(&hook.Call{Hook: v.Hook}, in)
	require.NoError(t, err)
	var out any
	err = s.serve(t.Context(), inv, &out)
	require.NoError(t, err)
	require.Equal(t, compact(t, v.Input), string(inv.Output))
	s.Close()
}

// configureSetter configures a module that may set everything with its answers.
func configureSetter(t *testing.T, m *Module) *Middleware {
	t.Helper()
	mw, err := Configure(t.Context(), m, "guard", nil, policy.Grants{SetModel: true, SetLimits: true})
	require.NoError(t, err)
	t.Cleanup(mw.Close)
	return mw
}

// vectorAnswer checks that a call returns the module's answer or error unchanged.
func vectorAnswer(t *testing.T, v *vector, shape [2]any) {
	t.Helper()
	answer, returns := `{}`, 0
	if v.Answer != nil {
		answer = compact(t, v.Answer)
	}
	if v.Error != nil {
		answer, returns = compact(t, v.Error), 1
	}
	hooks, err := abijson.Marshal(abi.Description{Hooks: []abi.Hook{v.Hook}})
	require.NoError(t, err)
	m, err := loadBytes(t, unconfigured(t, answering(t, string(hooks), answer, returns)), policy.Limits{})
	require.NoError(t, err)
	session, err := configureSetter(t, m).Open(t.Context(), "guard", "run-7")
	require.NoError(t, err)
	defer session.Close()

	out := reflect.New(reflect.TypeOf(shape[1])).Interface()
	err = session.Call(t.Context(), &hook.Call{Hook: v.Hook}, reflect.New(reflect.TypeOf(shape[0])).Interface(), out)
	var failed *abi.Error
	if v.Error != nil {
		require.True(t, errors.As(err, &failed))
		got, err := abijson.Marshal(failed)
		require.NoError(t, err)
		require.Equal(t, answer, string(got))
		return
	}
	require.NoError(t, err)
	got, err := abijson.Marshal(out)
	require.NoError(t, err)
	require.Equal(t, answer, string(got))
}

// unconfigured renames the module's export "configure", so that the host does not call it.
func unconfigured(t *testing.T, b []byte) []byte {
	t.Helper()
	require.Equal(t, 1, bytes.Count(b, []byte("configure")))
	return bytes.Replace(b, []byte("configure"), []byte("unrelated"), 1)
}
