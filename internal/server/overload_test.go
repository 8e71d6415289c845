package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestOverloadRejectsRuns checks that a server that is short of memory starts and resumes no runs,
// but answers all other requests.
func TestOverloadRejectsRuns(t *testing.T) {
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent},
		func(o *server.Options) { o.Memory = 1 << 20 },
	) // less than the test uses
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	f.Finished(f.Acme, run.ID)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go f.Services.Overload.Watch(ctx)
	require.Eventually(t, func() bool { return f.Services.Overload.State().Rejecting }, 20*time.Second, time.Millisecond)
	for path, body := range map[string]any{
		"/v1/runs":                api.StartRun{Agent: "greeter", Input: "hi"},
		"/v1/chat/completions":    map[string]any{"model": "greeter", "messages": []abi.Message{abi.User("hi")}},
		"/v1/agents/greeter/agui": map[string]any{"threadId": "t", "runId": "r"},
	} {
		r := f.Send("POST", path, f.Acme, body)
		require.Contains(t, r.Problem(t, 503, path).Detail, "of its memory")
		require.Equal(t, "5", r.Header.Get("Retry-After"))
	}
	f.OK("GET", "/v1/runs/"+run.ID, f.Acme, nil, nil)
	f.Send("POST", "/v1/runs/"+run.ID+"/cancel", f.Acme, nil).Problem(t, 409)
	metrics := string(f.OK("GET", "/metrics", f.Operator, nil, nil).Body)
	require.Contains(t, metrics, "agent_runner_overload_rejecting 1\n")
	require.Contains(t, metrics, "agent_runner_overload_rejected_total 3\n")
	require.Contains(t, metrics, "agent_runner_overload_evicting 1\n")
}

// TestOverloadEndsTheLargestRun checks that the run that holds the most memory ends with an error
// that gives the reason. Other runs continue.
func TestOverloadEndsTheLargestRun(t *testing.T) {
	waits := make(chan struct{})
	wait := &inproc.Middleware{
		BeforeAgent: func(ctx context.Context, _ *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			select {
			case <-waits:
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
	}
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"waits": func() *agent.Options {
		c, err := chain.New(hook.Entry{Name: "wait", Ring: hook.Tenant, Middleware: wait})
		require.NoError(t, err)
		return &agent.Options{Model: scripted.New(scripted.Text("done")), Chain: c}
	}})
	process := account.New(account.LevelProcess, "test", nil, 0)
	var started [2]api.Run
	for i := range started {
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "waits", Input: "hi"}, &started[i])
		a := account.New(account.LevelRun, started[i].ID, process, 0)
		a.Evictable(f.Services.Runs.Active.Get("acme", started[i].ID).Cancel)
		require.NoError(t, a.TryReserve(int64(1+i)<<20))
	}
	evict := server.EvictFrom(process)
	state := overload.State{Used: 99, Limit: 100}
	require.True(t, evict(state))
	large := f.Finished(f.Acme, started[1].ID)
	require.Equal(t, abi.RunError, large.FinishReason)
	require.Contains(t, large.Error, "99 of 100 bytes used")
	require.Contains(t, large.Error, "2097152 bytes")
	close(waits)
	require.Equal(t, abi.RunStop, f.Finished(f.Acme, started[0].ID).FinishReason)
	require.True(t, evict(state), "the other one is next")
	require.False(t, evict(state), "both received it")
}
