package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// flooder returns a middleware that emits as much as allowed in each hook, and continues its run
// by calling a tool. It needs no model.
func flooder() *inproc.Middleware {
	data := json.RawMessage(`"` + strings.Repeat("x", 8000) + `"`)
	emit := func(ctx context.Context, c *hook.Call) error {
		time.Sleep(50 * time.Millisecond) // simulates a module's computation
		for range 255 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := c.Emit("noise", data); err != nil {
				return err
			}
		}
		return nil
	}
	again := abi.Tool{Name: "again", Description: "Again", Parameters: json.RawMessage(`{"type":"object"}`)}
	var calls atomic.Int64
	return &inproc.Middleware{
		BeforeAgent: func(ctx context.Context, c *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			return &abi.BeforeAgentAnswer{Tools: abi.ToolsPatch{Add: []abi.Tool{again}}}, emit(ctx, c)
		},
		BeforeModel: func(ctx context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			m := abi.Message{
				Role: abi.RoleAssistant,
				ToolCalls: []abi.ToolCall{
					{ID: fmt.Sprint("call", calls.Add(1)), Function: abi.FunctionCall{Name: again.Name, Arguments: "{}"}},
				},
			}
			return &abi.BeforeModelAnswer{Response: &abi.Response{Message: m}}, emit(ctx, c)
		},
		CallTool: func(ctx context.Context, c *hook.Call, _ *abi.CallToolInput) (*abi.CallToolAnswer, error) {
			return &abi.CallToolAnswer{Result: abi.TextResult("ok")}, emit(ctx, c)
		},
		AfterAgent: func(ctx context.Context, c *hook.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			return nil, emit(ctx, c)
		},
	}
}

// floods starts n runs of the agent "flood", and returns their ids when each of them has emitted an
// event.
func floods(f *servertest.Fixture, key string, n int) (ids []string) {
	f.T.Helper()
	for range n {
		var run api.Run
		f.OK("POST", "/v1/runs", key, api.StartRun{Agent: "flood", Input: "hi"}, &run)
		ids = append(ids, run.ID)
	}
	for _, id := range ids {
		var run api.Run
		require.Eventually(f.T, func() bool {
			f.OK("GET", "/v1/runs/"+id, key, nil, &run)
			return run.LastEvent > 0
		}, time.Minute, 10*time.Millisecond)
	}
	return ids
}

// ends waits for at most 20 s until a run has finished, and returns the run and the time that this
// took.
func ends(f *servertest.Fixture, key, id string) (run *api.Run, took time.Duration) {
	f.T.Helper()
	began := time.Now()
	require.Eventually(f.T, func() bool {
		f.OK("GET", "/v1/runs/"+id, key, nil, &run)
		return run.Status == "finished"
	}, 20*time.Second, 5*time.Millisecond)
	return run, time.Since(began)
}

// TestControlBeforeData checks that a run that floods its journal ends within 10 s after it is
// canceled or its module is blocked, while other runs flood the same journal.
func TestControlBeforeData(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	const digest = "1111111111111111111111111111111111111111111111111111111111111111"
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"flood": func() *agent.Options {
		c, err := chain.New(hook.Entry{Name: "flood", Ring: hook.Tenant, Middleware: digested{flooder(), digest}})
		require.NoError(t, err)
		return &agent.Options{Model: scripted.New(scripted.Text("x")), Chain: c, MaxSteps: 10_000}
	}})
	acme, beta := floods(f, f.Acme, 3), floods(f, f.Beta, 3)
	go f.Services.Runs.WatchBlocks(t.Context())
	time.Sleep(2 * time.Second) // to build up a backlog
	var all []time.Duration
	for i, id := range acme {
		began := time.Now()
		f.OK("POST", "/v1/runs/"+id+"/cancel", f.Acme, nil, nil)
		asked := time.Since(began)
		run, _ := ends(f, f.Acme, id)
		require.Equal(t, "canceled", run.FinishReason)
		t.Log("cancel", i, asked, time.Since(began))
		all = append(all, time.Since(began))
	}
	began := time.Now()
	f.OK("PUT", "/v1/blocks/"+digest, f.Operator, map[string]any{"reason": "floods"}, nil)
	t.Log("block", time.Since(began))
	for _, id := range beta {
		ends(f, f.Beta, id)
		t.Log("blocked", time.Since(began))
		all = append(all, time.Since(began))
	}
	require.Less(t, slices.Max(all), 10*time.Second, fmt.Sprint(all))
}

// TestDeadlineAndDeletionBeforeData checks that a run that floods ends at its deadline, and that a
// tenant whose runs flood can be deleted. Each must take less than 20 s while other runs flood the
// same journal.
func TestDeadlineAndDeletionBeforeData(t *testing.T) {
	longtest.Skip(t)
	flood := func(timeout time.Duration) func() *agent.Options {
		return func() *agent.Options {
			c, err := chain.New(hook.Entry{Name: "flood", Ring: hook.Tenant, Middleware: flooder()})
			require.NoError(t, err)
			return &agent.Options{Model: scripted.New(scripted.Text("x")), Chain: c, MaxSteps: 10_000, Timeout: timeout}
		}
	}
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"flood": flood(0), "short": flood(3 * time.Second)},
	)
	floods(f, f.Acme, 2)
	beta := floods(f, f.Beta, 2)
	began := time.Now()
	var short api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "short", Input: "hi"}, &short)
	ended, _ := ends(f, f.Acme, short.ID)
	require.Equal(t, abi.RunTimeout, ended.FinishReason)
	t.Log("deadline of 3 s:", time.Since(began))
	began = time.Now()
	require.Eventually(t, func() bool {
		return f.Send("DELETE", "/v1/tenants/beta", f.Operator, nil).Status == http.StatusNoContent
	}, 20*time.Second, 100*time.Millisecond)
	t.Log("deletion:", time.Since(began))
	for _, id := range beta {
		_, err := f.Store.Run(t.Context(), id)
		require.ErrorIs(t, err, journal.ErrNoRun)
	}
}

// A digested is a native middleware with a module's digest.
type digested struct {
	*inproc.Middleware
	digest string
}

func (d digested) Describe() hook.Description {
	out := d.Middleware.Describe()
	out.Digest = d.digest
	return out
}

// TestControlRequestsDoNotWait checks that control requests have their own rate limit and slots. A
// tenant that has reached its limit of requests can still cancel a run. A tenant whose list is being
// read can still request the state of a run.
func TestControlRequestsDoNotWait(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	f.OK(
		"PATCH",
		"/v1/tenants/acme",
		f.Operator,
		map[string]any{"quota": map[string]any{"requests_per_minute": 2, "concurrent_requests": 1}},
		nil,
	)
	f.OK("GET", "/v1/runs", f.Acme, nil, nil)
	f.OK("GET", "/v1/runs", f.Acme, nil, nil)
	f.Send("GET", "/v1/runs", f.Acme, nil).Problem(t, 429)
	f.Send("POST", "/v1/runs/run_none/cancel", f.Acme, nil).Problem(t, 404)
	f.Send("GET", "/v1/runs/run_none", f.Acme, nil).Problem(t, 404)
	f.Send("GET", "/v1/runs/run_none", f.Acme, nil).Problem(t, 429)

	held, done := make(chan struct{}), make(chan struct{})
	defer close(done)
	go f.Services.Admission.Read(context.Background(), "beta", false, func() error {
		close(held)
		<-done
		return nil
	})
	<-held
	_, leave, err := f.Services.Admission.InFlight.Enter("beta", 0, false, 0)
	require.NoError(t, err)
	defer leave()
	f.OK("PATCH", "/v1/tenants/beta", f.Operator, map[string]any{"quota": map[string]any{"concurrent_requests": 1}}, nil)
	f.Send("GET", "/v1/runs", f.Beta, nil).Problem(t, 429)
	f.Send("GET", "/v1/runs/run_none", f.Beta, nil).Problem(t, 404)
}
