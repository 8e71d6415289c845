package rollouts_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/rollouts"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// slowModel is the delay of the model small-slow. Even on a busy machine, other models have a shorter
// delay.
const slowModel = 4 * time.Second

// rolloutModel calls a tool, and then answers. The model small-slow takes long, and small-broken fails.
type rolloutModel struct{}

// Generate implements [model.Model].
func (rolloutModel) Generate(ctx context.Context, q *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	reply := scripted.Calls(abi.NewToolCall("c1", "calculator", `{"expression":"6*7"}`))
	switch {
	case q.Model == "small-broken":
		return nil, &model.Error{Code: abi.CodeModel, Status: 400, Message: "no"}
	case q.Messages[len(q.Messages)-1].Role == "tool":
		reply = scripted.Text("It is 42.")
	case q.Model == "small-slow":
		time.Sleep(slowModel)
	}
	reply.Response.Usage = &abi.Usage{PromptTokens: 90, CompletionTokens: 10, TotalTokens: 100}
	return scripted.New(reply).Generate(ctx, q, sink)
}

// startRuns starts n runs of clerk at once, each in a thread of its own if threads is set, and waits for their
// ends. It adds their ids to arms.
func startRuns(f *servertest.Fixture, n int, threads bool, arms map[string][]api.Run) {
	f.T.Helper()
	var wg sync.WaitGroup
	runs := make([]api.Run, n)
	for i := range n {
		wg.Go(func() {
			q := api.StartRun{Agent: "clerk", Input: "what is 6*7?"}
			if threads {
				var thread api.Thread
				f.OK("POST", "/v1/threads", f.Acme, map[string]any{}, &thread)
				q.Thread = thread.ID
			}
			f.OK("POST", "/v1/runs", f.Acme, q, &runs[i])
			if done := f.Finished(f.Acme, runs[i].ID); done.Arm == "stable" {
				require.Equal(f.T, "It is 42.", done.Output, "%+v", done)
			}
		})
	}
	wg.Wait()
	for _, r := range runs {
		arms[r.Arm] = append(arms[r.Arm], r)
	}
}

// TestRolloutRollback checks for each figure that a canary with a worse figure is rolled back, and
// that a canary with an equal figure is not. It tests rollouts by percentage of runs and by thread.
func TestRolloutRollback(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	const enough = 10 // runs of each version; enough for a significant difference
	stable := "model: {name: small-cheap}\ntools: {builtin: [calculator]}\n"
	for name, c := range map[string]struct{ canary, reason string }{
		"denials": {stable + "middlewares: [{module: deny}]\n", "runs with a denied tool call: 100.0 % of"},
		"latency": {"model: {name: small-slow}\ntools: {builtin: [calculator]}\n", "95th percentile of the time of runs: "},
		"cost": {"model: {name: small-dear}\ntools: {builtin: [calculator]}\n",
			"mean cost of a run: 0.0004 EUR of "},
		"errors": {"model: {name: small-broken}\n", "runs that end with an error: 100.0 % of"},
		"none":   {stable + "limits: {max_steps: 5}\n", ""},
	} {
		for _, by := range []string{"run", "thread"} {
			t.Run(name+" by "+by, func(t *testing.T) {
				t.Parallel()
				f := servertest.New(t, func(o *server.Options) { o.Currency = "EUR" })
				f.SetModel(rolloutModel{})
				f.Upload(f.Acme, "deny", servertest.Scripts["deny"])
				for _, file := range []string{stable, c.canary} {
					r := f.Apply(f.Acme, "clerk", file)
					require.Equal(t, 200, r.Status, "%s", r.Body)
				}
				f.OK("PUT", "/v1/agents/clerk/aliases/stable", f.Acme, map[string]any{"version": 1}, nil)
				var r api.Rollout
				f.OK("POST", "/v1/agents/clerk/rollouts", f.Acme, api.StartRollout{Version: 2, By: by,
					Steps:    []api.RolloutStep{{Percent: 50, Seconds: 600}},
					Rollback: api.RolloutRollback{MinRuns: enough}}, &r)
				arms := map[string][]api.Run{}
				for min(len(arms["stable"]), len(arms["canary"])) < enough {
					startRuns(f, 10, by == "thread", arms)
				}
				if by == "thread" { // another run of each thread has the same version
					for arm, list := range arms {
						var again api.Run
						f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Thread: list[0].Thread, Agent: "clerk", Input: "hi"}, &again)
						require.Equal(t, arm, again.Arm)
						f.Finished(f.Acme, again.ID)
					}
				}
				s := rollouts.New(
					&rollouts.Options{
						Store:    f.Store,
						Blocks:   f.Services.Blocks,
						Logger:   slog.New(slog.DiscardHandler),
						Currency: "EUR",
					},
				)
				require.NoError(t, s.Check(t.Context(), nil))
				f.OK("GET", "/v1/rollouts/"+r.ID, f.Acme, nil, &r)
				if c.reason == "" {
					require.Equal(t, "running", r.Status, r.Reason)
					return
				}
				require.Equal(t, "rolled_back", r.Status, "%+v", r)
				require.Contains(t, r.Reason, c.reason)
				require.Equal(t, "EUR", r.Currency)
				var run api.Run
				q := api.StartRun{Agent: "clerk", Input: "hi"}
				f.OK("POST", "/v1/runs", f.Acme, q, &run)
				require.Equal(t, []any{int64(1), ""}, []any{run.Version, run.Arm}, "all runs have the stable version again")
				f.Finished(f.Acme, run.ID)
			})
		}
	}
}
