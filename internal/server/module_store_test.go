package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A moduleStore fails to read modules while err is not nil.
type moduleStore struct {
	store.Store
	err error
}

func (s *moduleStore) Module(ctx context.Context, digest string) ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.Module(ctx, digest)
}

// TestModulesOfFailingStore checks that a failure of the database while the modules of an agent or of a
// route are loaded keeps the status of such a failure, and is not reported as the agent's fault.
func TestModulesOfFailingStore(t *testing.T) {
	t.Parallel()
	var s *moduleStore
	f, u := routed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(
			w,
			`{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`,
		)
	}, func(o *Options) {
		s = &moduleStore{Store: o.Store}
		o.Store = s
	})
	f.model(scripted.Text("hello"))
	require.Equal(
		t,
		200,
		f.pushModule(f.acme, "?name=quiet&version=1", wasm(t, "no-tools.wasm"), "application/wasm").status,
	)
	require.Equal(
		t,
		200,
		f.apply(f.acme, "helper", "model: {name: small}\nmiddlewares: [{name: w, module: quiet}]\n").status,
	)
	require.Equal(
		t,
		200,
		f.putGateway(
			f.acme,
			u,
			"routes: [{protocol: chat, upstream: UPSTREAM, middlewares: [{name: w, module: quiet}]}]\n",
		).status,
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
		f.server.modules.CloseIdle()
		s.err = tc.err
		f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: "helper", Input: "hi"}).problem(t, tc.status, tc.err)
		f.chat(f.acme, ask).problem(t, tc.status, tc.err)
	}
	s.err = nil
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "helper", Input: "hi"}, nil)
	r := f.chat(f.acme, ask)
	require.Equal(t, 200, r.status, "%s", r.body)
}
