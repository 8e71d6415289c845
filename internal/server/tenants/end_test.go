package tenants_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestDeletedTenantEnds checks that the keys of a tenant are rejected as soon as its deletion
// begins, and that its runs end on all servers. Other tenants' runs continue.
func TestDeletedTenantEnds(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 9), make(chan struct{})
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { return servertest.SlowAgent(began, release) }},
	)
	ctx := t.Context()
	var others api.Run
	f.OK("POST", "/v1/runs", f.Beta, api.StartRun{Agent: "slow", Input: "hi"}, &others)
	for range 2 {
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}, nil)
	}
	for range 3 {
		<-began
	}
	const elsewhere = "run_elsewhere" // on another server
	require.NoError(
		t,
		f.Store.Create(
			ctx,
			&journal.Creation{ID: elsewhere, Tenant: "acme", Owner: "another", LeaseTTL: time.Hour, Log: []byte("x")},
		),
	)

	deleted := make(chan *servertest.Reply, 1)
	go func() { deleted <- f.Send("DELETE", "/v1/tenants/acme", f.Operator, nil) }()
	require.Eventually(t, func() bool {
		wanted, err := f.Store.Renew(ctx, elsewhere, 1, time.Hour)
		return err == nil && wanted
	}, time.Minute, 5*time.Millisecond, "who runs it is told")
	f.Send("GET", "/v1/runs", f.Acme, nil).Problem(t, 401)
	require.NoError(
		t,
		f.Store.Commit(ctx, &journal.Commit{Run: elsewhere, Epoch: 1, Entry: 2, Log: []byte("x"), First: 1, Last: 0,
			Progress: &journal.Progress{Status: journal.StatusFinished}, LeaseTTL: time.Hour}),
	)

	require.Equal(t, 204, (<-deleted).Status)
	require.Equal(t, 1, f.Services.Runs.Count(), "the other tenant's alone")
	f.Send("GET", "/v1/tenants/acme", f.Operator, nil).Problem(t, 404)
	close(release)
	require.Equal(t, "stop", f.Finished(f.Beta, others.ID).FinishReason)
}

// TestDeletionContinues checks that a deletion that is too large for one request continues in the
// next one. The tenant's keys are rejected in between.
func TestDeletionContinues(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{})
	whole := f.Services.Timeouts.DeleteRuns
	f.Services.Timeouts.DeleteRuns = 0
	p := f.Send("DELETE", "/v1/tenants/acme", f.Operator, nil).Problem(t, 409)
	require.Contains(t, p.Detail, "delete it again")
	f.Send("GET", "/v1/runs", f.Acme, nil).Problem(t, 401)
	f.OK("GET", "/v1/tenants/acme", f.Operator, nil, nil)
	f.Services.Timeouts.DeleteRuns = whole
	require.Equal(t, 204, f.Send("DELETE", "/v1/tenants/acme", f.Operator, nil).Status)
	f.Send("DELETE", "/v1/tenants/acme", f.Operator, nil).Problem(t, 404)
	f.Send("DELETE", "/v1/tenants/", f.Operator, nil).Problem(t, 404)
}
