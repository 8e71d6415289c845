package middlewaretest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// inputOf returns a small input of a hook, with an unknown field such as a newer host may send.
func inputOf(hook abi.Hook) []byte {
	switch hook {
	case contract.HookAfterModel:
		return []byte(`{"response":{"message":{"role":"assistant","content":"x"}},"new":1}`)
	case contract.HookAfterTool:
		return []byte(`{"result":{"content":"x","new":1}}`)
	default:
		return []byte(`{"run":{"new":1}}`)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	d, err := middlewaretest.New(middleware.Options{}, everything{}).Describe()
	require.NoError(t, err)
	require.Equal(t, contract.Hooks()[1:], d.Hooks, "all but describe, in the order in which a run meets them")
	require.Equal(t, contract.MessagesLazy, d.Messages)
	require.Nil(t, d.Events)
}

// TestEndings checks the output of every hook that returns an error, a stop or an interrupt.
func TestEndings(t *testing.T) {
	t.Parallel()
	const stop, interrupt = `{"stop":{"reason":"r","code":"c"}}`, `{"interrupt":{"reason":"r","payload":{"k":1}}}`
	cannot := map[abi.Hook]bool{
		contract.HookConfigure:       true,
		contract.HookToolMessages:    true,
		contract.HookAfterAgent:      true,
		contract.HookObserve:         true,
		contract.HookTranslateBefore: true,
		contract.HookTranslateAfter:  true,
	}
	call := func(hook abi.Hook, fn func(ctx *middleware.Context) error) (string, bool) {
		m := middleware.NewModule(middleware.Options{}, everything{func(ctx *middleware.Context, h abi.Hook) error {
			if h != hook {
				return nil
			}
			return fn(ctx)
		}})
		output, ok := m.Call(nil, hook, inputOf(hook))
		return string(output), ok
	}
	for _, hook := range contract.Hooks()[1:] {
		output, ok := call(hook, func(*middleware.Context) error { return fmt.Errorf("reading: %w", errors.New("gone")) })
		require.False(t, ok, hook)
		require.JSONEq(t, `{"code":"internal","message":"reading: gone"}`, output, hook)

		output, ok = call(hook, func(*middleware.Context) error {
			return fmt.Errorf("reading: %w", &abi.Error{Code: abi.CodeLimit, RetryAfterMS: 5})
		})
		require.False(t, ok, hook)
		require.JSONEq(t, `{"code":"limit","message":"reading: limit","retry_after_ms":5}`, output, hook)

		stopped, ok := call(hook,
			func(ctx *middleware.Context) error { return fmt.Errorf("wrapped: %w", ctx.Stop("r", "c")) })
		paused, paused1 := call(hook,
			func(ctx *middleware.Context) error { return ctx.Interrupt("r", map[string]int{"k": 1}) })
		switch {
		case cannot[hook]:
			require.False(t, ok || paused1, hook)
			require.Contains(t, stopped, "can neither stop nor interrupt a run", hook)
			require.Contains(t, paused, "can neither stop nor interrupt a run", hook)
		case hook == contract.HookGateTool:
			require.True(t, ok && paused1)
			require.JSONEq(t, `{"stop":{"reason":"r","code":"c"},"decision":"stop","message":"r"}`, stopped)
			require.JSONEq(t, `{"decision":"ask","message":"r","payload":{"k":1}}`, paused)
		case hook == contract.HookOnChunk:
			require.True(t, ok)
			require.JSONEq(t, stop, stopped)
			require.False(t, paused1)
			require.Contains(t, paused, "on_chunk cannot interrupt")
		default:
			require.True(t, ok && paused1, hook)
			require.JSONEq(t, stop, stopped, hook)
			require.JSONEq(t, interrupt, paused, hook)
		}
	}
}

// lenient is a host that has a reply for every wrapper.
type lenient struct{ middleware.Host }

func (lenient) Next([]byte) ([]byte, error) {
	return []byte(`{"response":{"message":{"role":"assistant","content":"x"}},"result":{"content":"x"}}`), nil
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	m := middleware.NewModule(middleware.Options{}, everything{})
	for _, hook := range contract.Hooks()[1:] {
		for _, in := range []string{``, `[]`, `{"entry":1}`, `{"config":`} {
			output, ok := m.Call(nil, hook, []byte(in))
			require.False(t, ok, "%s %s", hook, in)
			require.Contains(t, string(output), `"code":"invalid","message":"input: `, "%s %s", hook, in)
		}
		_, ok := m.Call(lenient{}, hook, inputOf(hook))
		require.True(t, ok, "%s: what a newer host says is no error", hook)
	}
	output, ok := m.Call(nil, "before_everything", nil)
	require.False(t, ok)
	require.Contains(t, string(output), `unknown hook \"before_everything\"`)
}

func TestGatesOfOneModule(t *testing.T) {
	t.Parallel()
	decisions := []middleware.Decision{
		middleware.Allow(),
		middleware.Ask("ask"),
		middleware.Deny("deny"),
		middleware.StopRun("stop"),
	}
	fixed := func(d middleware.Decision) middleware.Middleware {
		return middleware.WithGate(func(*middleware.Context, *middleware.Call) (middleware.Decision, error) { return d, nil })
	}
	for i, a := range decisions {
		for j, b := range decisions {
			answer, err := middlewaretest.New(middleware.Options{}, fixed(a), fixed(b)).GateTool(abi.GateToolInput{})
			require.NoError(t, err)
			want := []string{abi.DecideAllow, abi.DecideAsk, abi.DecideDeny, abi.DecideStop}[max(i, j)]
			require.Equal(t, want, answer.Decision, "the strictest counts")
		}
	}
}

// TestMistakes checks that a hook fails if it returns an invalid value or makes a change that is
// not allowed.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for want, mw := range map[string]middleware.Middleware{
		"a gate returned no decision": middleware.WithGate(func(*middleware.Context, *middleware.Call) (middleware.Decision, error) {
			return middleware.Decision{}, nil
		}),
		"a gate cannot change the arguments": middleware.WithGate(func(_ *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
			call.Arguments = "{}"
			return middleware.Allow(), nil
		}),
		"encode": middleware.WithGate(func(ctx *middleware.Context, _ *middleware.Call) (middleware.Decision, error) {
			return middleware.Decision{}, ctx.Interrupt("encode", func() {})
		}),
	} {
		_, err := middlewaretest.New(middleware.Options{}, mw).GateTool(abi.GateToolInput{})
		require.ErrorContains(t, err, want)
	}
	response := &abi.Response{Message: abi.Assistant("x")}
	afterModel := func(fn func(call *middleware.ModelEnd)) error {
		h := middlewaretest.New(
			middleware.Options{},
			middleware.WithAfterModel(func(_ *middleware.Context, call *middleware.ModelEnd) error {
				fn(call)
				return nil
			}),
		)
		_, err := h.AfterModel(abi.AfterModelInput{Response: response, Request: abi.Request{Model: "m"}})
		return err
	}
	require.ErrorContains(t, afterModel(func(call *middleware.ModelEnd) { call.Request.Model = "other" }),
		"the request, which has been sent")
	require.ErrorContains(t, afterModel(func(call *middleware.ModelEnd) { call.Request.Model = "" }),
		"a request needs a model")
	require.ErrorContains(t, afterModel(func(call *middleware.ModelEnd) { call.Response = nil }),
		"an answer or an error must be left")
	require.NoError(t,
		afterModel(func(call *middleware.ModelEnd) { call.Response, call.Err = nil, &abi.Error{Code: abi.CodeModel} }))

	afterTool := middlewaretest.New(
		middleware.Options{},
		middleware.WithAfterTool(func(_ *middleware.Context, call *middleware.ToolEnd) error {
			call.Arguments = "{}"
			return nil
		}),
	)
	_, err := afterTool.AfterTool(abi.AfterToolInput{Result: abi.TextResult("x")})
	require.ErrorContains(t, err, "the arguments of a call that was made")

	state := middlewaretest.New(
		middleware.Options{},
		middleware.WithAfterModelRewriteState(func(_ *middleware.Context, s *middleware.State) error {
			s.Tools[0].Active = false
			return nil
		}),
		middleware.WithBeforeModelRewriteState(
			func(_ *middleware.Context, s *middleware.State) error { return s.SetActive("t", "u") },
		),
	)
	tools := []abi.StateTool{{Tool: abi.Tool{Name: "t"}, Active: true}}
	_, err = state.AfterModelRewriteState(abi.AfterModelRewriteStateInput{Tools: tools})
	require.ErrorContains(t, err, "in BeforeModelRewriteState only")
	_, err = state.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{Tools: tools})
	require.EqualError(t, err, `there is no tool "u" to make active`)
}

func TestRespondSkipsRest(t *testing.T) {
	t.Parallel()
	reached := middleware.Combine(
		middleware.WithBeforeModel(func(*middleware.Context, *middleware.ModelStart) error { return errors.New("reached") }),
		middleware.WithBeforeTool(func(*middleware.Context, *middleware.ToolStart) error { return errors.New("reached") }),
		middleware.WithBeforeAgent(func(*middleware.Context, *middleware.AgentStart) error { return errors.New("reached") }),
	)
	h := middlewaretest.New(middleware.Options{},
		middleware.WithBeforeModel(func(_ *middleware.Context, call *middleware.ModelStart) error {
			call.Respond(&abi.Response{Message: abi.Assistant("x")})
			return nil
		}),
		middleware.WithBeforeTool(func(_ *middleware.Context, call *middleware.ToolStart) error {
			call.Respond(abi.TextResult("x"))
			return nil
		}),
		middleware.WithBeforeAgent(func(_ *middleware.Context, run *middleware.AgentStart) error {
			run.Respond(abi.Assistant("x"))
			return nil
		}), reached)
	model, err := h.BeforeModel(abi.BeforeModelInput{})
	require.NoError(t, err)
	require.NotNil(t, model.Response)
	tool, err := h.BeforeTool(abi.BeforeToolInput{})
	require.NoError(t, err)
	require.NotNil(t, tool.Result)
	agent, err := h.BeforeAgent(abi.BeforeAgentInput{})
	require.NoError(t, err)
	require.NotNil(t, agent.Respond)
}

func TestAllAfterAgentHooksRun(t *testing.T) {
	t.Parallel()
	calls := 0
	failing := func(text string) middleware.Middleware {
		return middleware.WithAfterAgent(func(*middleware.Context, *middleware.AgentEnd) error {
			calls++
			return errors.New(text)
		})
	}
	_, err := middlewaretest.New(middleware.Options{}, failing("one"), failing("two")).AfterAgent(abi.AfterAgentInput{})
	require.EqualError(t, err, "one\ntwo")
	require.Equal(t, 2, calls)
}

func TestContext(t *testing.T) {
	t.Parallel()
	h := middlewaretest.New(
		middleware.Options{Name: "logger"},
		middleware.WithObserver(func(ctx *middleware.Context, _ []abi.Event) error {
			require.ErrorIs(t, ctx.Emit("late", nil), &abi.Error{Code: abi.CodeDenied})
			return nil
		}),
		middleware.WithAfterTools(func(ctx *middleware.Context, _ *middleware.ToolsEnd) error {
			require.Equal(t, "logger", ctx.Entry)
			require.Equal(t, 1, ctx.Run.Step)
			ctx.Debugf("a %d", 1)
			ctx.Infof("b")
			ctx.Warnf("c %s", "<x>")
			ctx.Errorf("d")
			require.ErrorContains(t, ctx.Emit("e", func() {}), `encode the data of event "e"`)
			require.NoError(t, ctx.Emit("plain", nil))
			return ctx.Emit("data", []string{"<y>"})
		}),
	)
	_, err := h.AfterTools(abi.AfterToolsInput{})
	require.NoError(t, err)
	require.Equal(t, []middlewaretest.Log{
		{
			Level: middleware.LogDebug,
			Text:  "a 1",
		}, {Level: middleware.LogInfo, Text: "b"}, {Level: middleware.LogWarn, Text: "c <x>"},
		{Level: contract.LogError, Text: "d"},
	}, h.Logs)
	require.Equal(t, []contract.Custom{{Name: "plain"}, {Name: "data", Data: []byte(`["<y>"]`)}}, h.Events)
	_, err = h.Observe(abi.ObserveInput{})
	require.NoError(t, err)
}
