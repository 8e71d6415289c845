package server

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
)

// TestOverloadRejectsRuns checks that a server that is short of memory starts and resumes no runs,
// but answers all other requests.
func TestOverloadRejectsRuns(t *testing.T) {
	f, _ := runFixture(
		t,
		map[string]func() *agent.Options{"greeter": hello},
		func(o *Options) { o.Memory = 1 << 20 },
	) // less than the test uses
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	f.finished(f.acme, run.ID)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go f.server.overload.Watch(ctx)
	require.Eventually(t, func() bool { return f.server.overload.State().Rejecting }, 20*time.Second, time.Millisecond)
	for path, body := range map[string]any{
		"/v1/runs":                api.StartRun{Agent: "greeter", Input: "hi"},
		"/v1/chat/completions":    map[string]any{"model": "greeter", "messages": []abi.Message{abi.User("hi")}},
		"/v1/agents/greeter/agui": map[string]any{"threadId": "t", "runId": "r"},
	} {
		r := f.send("POST", path, f.acme, body)
		require.Contains(t, r.problem(t, 503, path).Detail, "of its memory")
		require.Equal(t, "5", r.header.Get("Retry-After"))
	}
	f.ok("GET", "/v1/runs/"+run.ID, f.acme, nil, nil)
	f.send("POST", "/v1/runs/"+run.ID+"/cancel", f.acme, nil).problem(t, 409)
	metrics := string(f.ok("GET", "/metrics", f.operator, nil, nil).body)
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
	f, _ := runFixture(t, map[string]func() *agent.Options{"waits": func() *agent.Options {
		c, err := chain.New(hook.Entry{Name: "wait", Ring: hook.Tenant, Middleware: wait})
		require.NoError(t, err)
		return &agent.Options{Model: scripted.New(scripted.Text("done")), Chain: c}
	}})
	e := newEvictor(f.server.log)
	e.process = account.New(account.LevelProcess, "test", nil, 0)
	var started [2]api.Run
	for i := range started {
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "waits", Input: "hi"}, &started[i])
		a := account.New(account.LevelRun, started[i].ID, e.process, 0)
		a.Evictable(f.server.runs.Active.Get("acme", started[i].ID).Cancel)
		require.NoError(t, a.TryReserve(int64(1+i)<<20))
	}
	state := overload.State{Used: 99, Limit: 100}
	require.True(t, e.evict(state))
	large := f.finished(f.acme, started[1].ID)
	require.Equal(t, abi.RunError, large.FinishReason)
	require.Contains(t, large.Error, "99 of 100 bytes used")
	require.Contains(t, large.Error, "2097152 bytes")
	close(waits)
	require.Equal(t, abi.RunStop, f.finished(f.acme, started[0].ID).FinishReason)
	require.True(t, e.evict(state), "the other one is next")
	require.False(t, e.evict(state), "both received it")
}
