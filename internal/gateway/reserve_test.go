package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// TestNoMemoryForModules checks that a request gets 429 if the modules of other requests use all
// memory, and is served once those have ended.
func TestNoMemoryForModules(t *testing.T) {
	t.Parallel()
	const oneInstance = 4 << 20 // its linear memory, twice its stack, and its tables and globals
	loader, err := module.NewLoader(t.Context(), &module.LoaderOptions{MemoryBytes: oneInstance * 3 / 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close(context.Background())) })
	m, err := loader.Load(t.Context(), "../../testdata/modules/wrap.wasm",
		policy.Limits{Limits: sandbox.Limits{MemoryBytes: 1 << 20, StackBytes: 1 << 20}})
	require.NoError(t, err)
	mw, err := module.Configure(t.Context(), m, "wrap", json.RawMessage(`{"next":"1"}`), policy.Grants{})
	require.NoError(t, err)
	t.Cleanup(mw.Close)
	begun, end := make(chan struct{}, 1), make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-end
		answers(whole)(w, r)
	})
	g := newGateway(t, u, func(o *Options) {
		o.Loader, o.ReserveTimeout = loader, 10*time.Millisecond
		o.Routes[0].Chain, err = chain.New(hook.Entry{Name: "wrap", Ring: hook.Tenant, Middleware: mw})
		require.NoError(t, err)
	})
	first := make(chan string, 1)
	go func() {
		_, body, _ := g.ask(t, `{"model":"m-1","messages":[{"role":"user","content":"Hi"}]}`)
		first <- body
	}()
	select {
	case <-begun:
	case body := <-first:
		require.Fail(t, "the first request was not sent to the upstream", body)
	}
	status, body, header := g.ask(t, `{"model":"m-1","messages":[{"role":"user","content":"Hi"}]}`)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Contains(t, body, "no memory for the route's modules")
	require.Contains(t, body, "try again later")
	require.Equal(t, "1", header.Get("Retry-After"))
	close(end)
	require.Equal(t, whole, <-first)
	status, _, _ = g.ask(t, `{"model":"m-1","messages":[{"role":"user","content":"Hi"}]}`)
	require.Equal(t, http.StatusOK, status)
}
