package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// oneInstance is the memory in bytes that an instance of wrap.wasm reserves in these tests: its
// linear memory, twice its stack, and its tables and globals.
const oneInstance = 1<<20 + 2<<20 + 1<<20

// guarded returns an agent of a host with the given memory. The agent has one tool, which calls the
// function work, and a module that wraps tool calls. The model makes the given number of calls in
// one step, then answers.
func guarded(t *testing.T, memory int64, calls int, work func(context.Context) error) *host.Agent {
	t.Helper()
	h, err := host.New(t.Context(), &host.Options{MemoryBytes: memory})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	m, err := h.Load(t.Context(), "../testdata/modules/wrap.wasm",
		host.Limits{Limits: sandbox.Limits{MemoryBytes: 1 << 20, StackBytes: 1 << 20}})
	require.NoError(t, err)
	var toolCalls []abi.ToolCall
	for i := range calls {
		toolCalls = append(toolCalls, abi.NewToolCall(string(rune('a'+i)), "work", "{}"))
	}
	a, err := h.NewAgent(t.Context(), &host.AgentOptions{
		Model: scripted.Func(func(_ int, req *model.Request) scripted.Reply {
			if req.Messages[len(req.Messages)-1].Role == abi.RoleUser {
				return scripted.Calls(toolCalls...)
			}
			return scripted.Text("done: " + req.Messages[len(req.Messages)-1].Content.String())
		}),
		Tools: []tool.Tool{tool.Func(abi.Tool{Name: "work"}, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
			return abi.TextResult("worked"), work(ctx)
		})},
		Middlewares: []host.Middleware{{Name: "guard", Module: m, Config: json.RawMessage(`{"next":"1"}`)}},
	})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// A gauge counts the callers in a section of code, and records their maximum number.
type gauge struct{ now, limit atomic.Int64 }

func (g *gauge) enter() (leave func()) {
	now := g.now.Add(1)
	for limit := g.limit.Load(); now > limit && !g.limit.CompareAndSwap(limit, now); limit = g.limit.Load() {
	}
	return func() { g.now.Add(-1) }
}

// TestRunsWaitForMemory checks that 40 runs with memory for three at a time all succeed, and that
// at most three are in a tool concurrently.
func TestRunsWaitForMemory(t *testing.T) {
	t.Parallel()
	var inside gauge
	a := guarded(t, 3*oneInstance, 1, func(context.Context) error {
		defer inside.enter()()
		return nil
	})
	const runs = 40
	errs := make(chan error, runs)
	var wg sync.WaitGroup
	for range runs {
		wg.Go(func() {
			answer, err := a.Ask(context.Background(), "work")
			if err == nil && answer != "done: worked" {
				err = errors.New(answer)
			}
			errs <- err
		})
	}
	wg.Wait()
	for range runs {
		require.NoError(t, <-errs)
	}
	require.LessOrEqual(t, inside.limit.Load(), int64(3))
}

// TestRunThatIsTooLarge checks that a run that can never get its memory fails before its first
// step.
func TestRunThatIsTooLarge(t *testing.T) {
	t.Parallel()
	a := guarded(t, oneInstance-1, 1, nil)
	var last abi.Event
	var err error
	for last, err = range a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User("work")}}) {
		require.NotEqual(t, abi.EventStepStarted, last.Type)
	}
	var tooLarge *sandbox.TooLargeError
	require.ErrorAs(t, err, &tooLarge)
	require.EqualError(
		t,
		err,
		"the run cannot begin: needs up to 4 MiB of memory for its modules, but can use 4.0 MiB; "+
			"lower the memory limits of its modules, or raise the host's",
	)
	require.Equal(t, abi.RunError, last.FinishReason)
	require.Equal(t, abi.CodeLimit, last.Error.Code)
}

// TestRunThatWaitsIsCanceled checks that a run that waits for memory can be canceled.
func TestRunThatWaitsIsCanceled(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}), make(chan struct{})
	a := guarded(t, oneInstance, 1, func(context.Context) error {
		close(started)
		<-finish
		return nil
	})
	first := make(chan error, 1)
	go func() {
		_, err := a.Ask(context.Background(), "work")
		first <- err
	}()
	select {
	case <-started:
	case err := <-first:
		require.NoError(t, err, "it ended before its tool was called")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("never mind")
	waited := make(chan error, 1)
	go func() {
		_, err := a.Ask(ctx, "work")
		waited <- err
	}()
	cancel(cause)
	err := <-waited
	require.ErrorIs(t, err, cause)
	var ended *host.Error
	require.ErrorAs(t, err, &ended)
	require.Equal(t, abi.RunCanceled, ended.FinishReason)
	close(finish)
	require.NoError(t, <-first)
}

// TestRunWithLessInParallel checks that a run makes only as many concurrent tool calls as fit
// into half of the host's memory: two of six calls if the memory suffices for four.
func TestRunWithLessInParallel(t *testing.T) {
	t.Parallel()
	var inside gauge
	both := make(chan struct{})
	var once atomic.Int64
	a := guarded(t, 4*oneInstance, 6, func(context.Context) error {
		defer inside.enter()()
		if once.Add(1) == 2 {
			close(both) // two are in the tool at once
		}
		<-both
		return nil
	})
	answer, err := a.Ask(t.Context(), "work")
	require.NoError(t, err)
	require.Equal(t, "done: worked", answer)
	require.Equal(t, int64(2), inside.limit.Load(), "half of the memory is left to others")
}

// TestRunWithinRun checks that an inner run fails with a [sandbox.NoRoomError], instead of
// waiting, if the outer run holds the memory that it needs, and that it succeeds if there is
// memory for both.
func TestRunWithinRun(t *testing.T) {
	t.Parallel()
	for _, room := range []int64{1, 2} {
		var a *host.Agent
		var depth atomic.Int64
		var inner error
		a = guarded(t, room*oneInstance, 1, func(ctx context.Context) error {
			if depth.Add(1) == 1 {
				_, inner = a.Ask(ctx, "work")
			}
			return nil
		})
		_, err := a.Ask(t.Context(), "work")
		require.NoError(t, err)
		if room == 2 {
			require.NoError(t, inner)
			continue
		}
		var noRoom *sandbox.NoRoomError
		require.ErrorAs(t, inner, &noRoom)
	}
}
