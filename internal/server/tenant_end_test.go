package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// TestDeletedTenantEnds checks that the keys of a tenant are rejected as soon as its deletion
// begins, and that its runs end on all servers. Other tenants' runs continue.
func TestDeletedTenantEnds(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 9), make(chan struct{})
	f, _ := runFixture(t, map[string]func() *agent.Options{"slow": func() *agent.Options { return slow(began, release) }})
	ctx := t.Context()
	var others api.Run
	f.ok("POST", "/v1/runs", f.beta, api.StartRun{Agent: "slow", Input: "hi"}, &others)
	for range 2 {
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "slow", Input: "hi"}, nil)
	}
	for range 3 {
		<-began
	}
	const elsewhere = "run_elsewhere" // on another server
	require.NoError(
		t,
		f.store.Create(
			ctx,
			&journal.Creation{ID: elsewhere, Tenant: "acme", Owner: "another", LeaseTTL: time.Hour, Log: []byte("x")},
		),
	)

	deleted := make(chan *reply, 1)
	go func() { deleted <- f.send("DELETE", "/v1/tenants/acme", f.operator, nil) }()
	require.Eventually(t, func() bool {
		wanted, err := f.store.Renew(ctx, elsewhere, 1, time.Hour)
		return err == nil && wanted
	}, time.Minute, 5*time.Millisecond, "who runs it is told")
	f.send("GET", "/v1/runs", f.acme, nil).problem(t, 401)
	require.NoError(
		t,
		f.store.Commit(ctx, &journal.Commit{Run: elsewhere, Epoch: 1, Entry: 2, Log: []byte("x"), First: 1, Last: 0,
			Progress: &journal.Progress{Status: journal.StatusFinished}, LeaseTTL: time.Hour}),
	)

	require.Equal(t, 204, (<-deleted).status)
	require.Equal(t, 1, f.server.runs.Count(), "the other tenant's alone")
	f.send("GET", "/v1/tenants/acme", f.operator, nil).problem(t, 404)
	close(release)
	require.Equal(t, "stop", f.finished(f.beta, others.ID).FinishReason)
}

// TestDeletionContinues checks that a deletion that is too large for one request continues in the
// next one. The tenant's keys are rejected in between.
func TestDeletionContinues(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{})
	whole := f.server.timeouts.DeleteRuns
	f.server.timeouts.DeleteRuns = 0
	p := f.send("DELETE", "/v1/tenants/acme", f.operator, nil).problem(t, 409)
	require.Contains(t, p.Detail, "delete it again")
	f.send("GET", "/v1/runs", f.acme, nil).problem(t, 401)
	f.ok("GET", "/v1/tenants/acme", f.operator, nil, nil)
	f.server.timeouts.DeleteRuns = whole
	require.Equal(t, 204, f.send("DELETE", "/v1/tenants/acme", f.operator, nil).status)
	f.send("DELETE", "/v1/tenants/acme", f.operator, nil).problem(t, 404)
	f.send("DELETE", "/v1/tenants/", f.operator, nil).problem(t, 404)
}
