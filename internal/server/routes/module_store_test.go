package routes_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// TestModulesOfFailingStore checks that a failure of the database while the modules of an agent or of a
// route are loaded keeps the status of such a failure, and is not reported as the agent's fault.
func TestModulesOfFailingStore(t *testing.T) {
	t.Parallel()
	var s *servertest.FailingStore
	f, u := routed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(
			w,
			`{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`,
		)
	}, func(o *server.Options) {
		s = &servertest.FailingStore{Store: o.Store}
		o.Store = s
	})
	f.SetReplies(scripted.Text("hello"))
	require.Equal(
		t,
		200,
		f.PushModule(f.Acme, "?name=quiet&version=1", servertest.Wasm(t, "no-tools.wasm"), "application/wasm").Status,
	)
	require.Equal(
		t,
		200,
		f.Apply(f.Acme, "helper", "model: {name: small}\nmiddlewares: [{name: w, module: quiet}]\n").Status,
	)
	require.Equal(
		t,
		200,
		putGateway(f,
			f.Acme,
			u,
			"routes: [{protocol: chat, upstream: UPSTREAM, middlewares: [{name: w, module: quiet}]}]\n",
		).Status,
	)

	const ask = `{"model":"small","messages":[{"role":"user","content":"hi"}]}`
	for _, tc := range []struct {
		err    error
		status int
	}{
		{&database.Error{Kind: database.Unavailable, Err: io.ErrUnexpectedEOF}, 503},
		{&database.Error{Kind: database.Full, Err: io.ErrShortWrite}, 503},
		{&database.Error{Kind: database.Corrupt, Err: io.ErrUnexpectedEOF}, 500},
		{&store.QuotaError{Quota: "storage_bytes"}, 429},
		{fmt.Errorf("sha256:00: %w", store.ErrNoModule), 422},
	} {
		f.Services.Modules.CloseIdle()
		s.Err = tc.err
		f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "helper", Input: "hi"}).Problem(t, tc.status, tc.err)
		chat(f, f.Acme, ask).Problem(t, tc.status, tc.err)
	}
	s.Err = nil
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "helper", Input: "hi"}, nil)
	r := chat(f, f.Acme, ask)
	require.Equal(t, 200, r.Status, "%s", r.Body)
}
