package rollouts_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/rollouts"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestRollout checks that runs are assigned to versions, and that a worse version is rolled back.
// Only one of two servers may roll it back, with a reason and figures.
func TestRollout(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithCanary(t, 40)
	var r api.Rollout
	q := api.StartRollout{Version: 2, Rollback: api.RolloutRollback{MinRuns: 5},
		Steps: []api.RolloutStep{{Percent: 50, Seconds: 600}, {Percent: 100, Seconds: 60}}}
	f.OK("POST", "/v1/agents/clerk/rollouts", f.Acme, q, &r)
	require.Equal(t, []any{"running", int64(1), int64(2), int64(50)}, []any{r.Status, r.Stable, r.Canary, r.Percent})
	f.Send("POST", "/v1/agents/clerk/rollouts", f.Acme, q).Problem(t, 409)
	f.Send("PUT", "/v1/agents/clerk/aliases/stable", f.Acme, map[string]any{"version": 2}).Problem(t, 409)
	var active struct{ Rollouts []api.Rollout }
	f.OK("GET", "/v1/rollouts", f.Acme, nil, &active)
	require.Equal(t, r.ID, active.Rollouts[0].ID)
	f.OK("GET", "/v1/rollouts", f.Beta, nil, &active)
	require.Empty(t, active.Rollouts)
	arms := map[string]int{}
	for range 40 {
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "clerk", Input: "hi"}, &run)
		require.Equal(t, r.ID, run.Rollout)
		require.Equal(t, map[string]int64{"stable": 1, "canary": 2}[run.Arm], run.Version)
		require.Equal(t, store.InCanary(r.ID, run.ID, 50), run.Arm == "canary")
		f.Finished(f.Acme, run.ID)
		arms[run.Arm]++
	}
	require.Greater(t, min(arms["stable"], arms["canary"]), 5, "about half of them")
	f.OK("GET", "/v1/rollouts/"+r.ID, f.Acme, nil, &r)
	require.Equal(t, int64(arms["canary"]), r.Figures.Canary.Runs)
	require.Equal(t, []float64{0, 1}, []float64{r.Figures.Stable.Faults, r.Figures.Canary.Faults})
	var history api.RolloutHistory
	f.OK("GET", "/v1/rollouts/"+r.ID+"/history", f.Acme, nil, &history)
	require.NotEmpty(t, history.Points)

	var wg sync.WaitGroup
	for range 2 { // servers
		s := rollouts.New(&rollouts.Options{Store: f.Store, Blocks: f.Services.Blocks, Logger: slog.New(slog.DiscardHandler)})
		wg.Go(func() { require.NoError(t, s.Check(t.Context(), nil)) })
	}
	wg.Wait()
	f.OK("GET", "/v1/rollouts/"+r.ID, f.Acme, nil, &r)
	require.Equal(t, "rolled_back", r.Status)
	require.Contains(t, r.Reason, "runs with a fault: 100.0 % of")
	require.Equal(t, float64(1), r.Figures.Canary.Faults, "the figures are stored")
	f.OK("GET", "/v1/rollouts", f.Acme, nil, &active)
	require.Empty(t, active.Rollouts, "it has ended")
	var log struct{ Records []api.AuditRecord }
	f.OK("GET", "/v1/audit?target="+r.ID, f.Acme, nil, &log)
	require.Len(t, log.Records, 2)
	require.Equal(t, []string{"rollout.roll_back", "server", "rollout.start", "key:" + servertest.KeyID(f.Acme)},
		[]string{log.Records[0].Action, log.Records[0].Actor, log.Records[1].Action, log.Records[1].Actor})
	require.Contains(t, string(log.Records[0].Detail), `"reason":"runs with a fault: 100.0 % of`)
	f.Send("POST", "/v1/rollouts/"+r.ID+"/promote", f.Acme, map[string]any{}).Problem(t, 409)
	f.Send("GET", "/v1/rollouts/"+r.ID, f.Beta, nil).Problem(t, 404)
	var a api.Agent
	f.OK("GET", "/v1/agents/clerk@stable", f.Acme, nil, &a)
	require.Equal(t, int64(1), a.Version)
}

// TestRolloutSteps checks pauses, steps and promotion with a clock that the test sets. A block of a
// module must abort the rollout at once.
func TestRolloutSteps(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithCanary(t, 1)
	var r api.Rollout
	now, err := f.Store.Now(t.Context())
	require.NoError(t, err)
	s := rollouts.New(&rollouts.Options{Store: f.Store, Blocks: f.Services.Blocks, Logger: slog.New(slog.DiscardHandler),
		Now: func(context.Context) (time.Time, error) { return now, nil }})
	q := api.StartRollout{Version: 2, By: "thread", Rollback: api.RolloutRollback{MinRuns: 1},
		Steps: []api.RolloutStep{{Percent: 99, Seconds: 60}, {Percent: 100, Seconds: 60}}}
	f.OK("POST", "/v1/agents/clerk/rollouts", f.Acme, q, &r)
	after := func(d time.Duration) *api.Rollout {
		t.Helper()
		now = now.Add(d)
		require.NoError(t, s.Check(t.Context(), nil))
		f.OK("GET", "/v1/rollouts/"+r.ID, f.Acme, nil, &r)
		return &r
	}
	require.Equal(t, int64(1), after(2*time.Minute).Step, "without runs of the canary, the step lasts")
	for range 20 {
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "clerk", Input: "hi"}, &run)
		f.Finished(f.Acme, run.ID)
		if run.Arm == "canary" {
			break
		}
	}
	f.OK("POST", "/v1/rollouts/"+r.ID+"/pause", f.Acme, map[string]any{"reason": "lunch"}, &r)
	require.Equal(t, []string{"paused", "lunch"}, []string{r.Status, r.Reason})
	require.Equal(t, int64(1), after(61*time.Second).Step)
	f.OK("POST", "/v1/rollouts/"+r.ID+"/resume", f.Acme, map[string]any{}, &r)
	require.Equal(t, "running", r.Status)
	require.Equal(t, int64(2), after(2*time.Minute).Step)
	require.Equal(t, int64(100), r.Percent)
	f.OK("POST", "/v1/rollouts/"+r.ID+"/promote", f.Acme, map[string]any{}, &r)
	require.Equal(t, "promoted", r.Status)
	var moves struct{ Moves []api.AliasMove }
	f.OK("GET", "/v1/agents/clerk/aliases/stable/moves", f.Acme, nil, &moves)
	require.Equal(t, "rollout "+r.ID, moves.Moves[0].By)
	require.Equal(t, int64(2), moves.Moves[0].To)

	var a api.Agent
	f.OK("GET", "/v1/agents/clerk@1", f.Acme, nil, &a)
	q.Version = 1
	f.OK("POST", "/v1/agents/clerk/rollouts", f.Acme, q, &r)
	digest := a.Modules[0].Digest
	require.NoError(t, s.Check(t.Context(), map[string]string{digest[len("sha256:"):]: "it leaks"}))
	f.OK("GET", "/v1/rollouts/"+r.ID, f.Acme, nil, &r)
	require.Equal(t, "aborted", r.Status)
	require.Contains(t, r.Reason, "it leaks")
	f.Send("POST", "/v1/agents/clerk/rollouts", f.Acme, api.StartRollout{Version: 1,
		Steps: []api.RolloutStep{{Percent: 100}}}).Problem(t, 422)
}
