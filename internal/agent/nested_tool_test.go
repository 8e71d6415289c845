package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// TestOwnTool checks that a module's own tool call passes the hooks and gates of the other modules
// but not the module's own. The call's By must name the caller, and there must be one result event.
func TestOwnTool(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var log []string
	var gated []abi.Call
	gate := &inproc.Middleware{
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			gated = append(gated, in.Call)
			return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
		},
	}
	caller := calling("echo", `{"q":1}`, func(res *abi.Result, err error) {
		require.NoError(t, err)
		require.Equal(t, `echo{"q":1}`, res.Content.String())
	})
	caller.BeforeTool = func(context.Context, *hook.Call, *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error) {
		require.Fail(t, "its own hooks are not called")
		return nil, nil
	}
	tr := runOn(t, answering(nil), agent.Options{Tools: []tool.Tool{echo("echo")}, Chain: with(
		t,
		at(
			hook.Outer,
			"outer",
			orderOf("outer", &log, &mu),
		),
		at(hook.Tenant, "gate", gate),
		at(hook.Tenant, "caller", caller),
		at(hook.Inner, "inner", orderOf("inner", &log, &mu)),
	)})
	require.NoError(t, tr.err)
	require.Subset(t, log, []string{"outer.bt", "inner.bt"})
	require.Len(t, gated, 1)
	require.Equal(t, &abi.By{Entry: "caller", Hook: contract.HookBeforeAgent}, gated[0].By)
	call := tr.events[slices.IndexFunc(tr.events, func(e abi.Event) bool { return e.Type == abi.EventToolCall })]
	require.Equal(t, "caller", call.Call.By.Entry)
	require.Equal(t, []string{call.Call.ID + `=echo{"q":1}`}, tr.results())
	require.EqualValues(t, 1, tr.last().Entries[2].ToolCalls)
	require.NotContains(t, fmt.Sprint(tr.last().Message), "echo")
}

// TestOwnToolRefused checks the errors of own tool calls that are invalid or not allowed, and the
// error results of own tool calls that fail or that a gate denies.
func TestOwnToolRefused(t *testing.T) {
	t.Parallel()
	fails := tool.Func(
		abi.Tool{Name: "fails"},
		func(context.Context, abi.Call) (*abi.Result, error) { return nil, errors.New("broken") },
	)
	denies := &inproc.Middleware{
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			if in.Call.Name == "denied" {
				return &abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "not for modules"}, nil
			}
			return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
		},
	}
	hides := &inproc.Middleware{
		BeforeModelRewriteState: func(
			context.Context, *hook.Call, *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			return &abi.BeforeModelRewriteStateAnswer{Active: []string{"echo", "fails", "denied"}}, nil
		},
	}
	for name, test := range map[string]struct {
		tool, arguments string
		code            abi.Code
		text            string
	}{
		"unknown":       {"nothing", "", abi.CodeNotFound, `no tool "nothing"`},
		"inactive":      {"hidden", "", abi.CodeDenied, "hidden is not active"},
		"no JSON":       {"echo", "{", abi.CodeInvalid, "the arguments of echo are not valid"},
		"a key twice":   {"echo", `{"a":1,"a":2}`, abi.CodeInvalid, "not valid"},
		"no object":     {"echo", `[1]`, abi.CodeInvalid, "want a JSON object"},
		"no arguments":  {"echo", "", "", "echo{}"},
		"it fails":      {"fails", "", "", "broken"},
		"a gate denies": {"denied", "", "", "not for modules"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := false
			caller := &inproc.Middleware{
				BeforeModel: func(ctx context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
					called = true
					res, err := c.Tool(ctx, test.tool, test.arguments)
					if test.code != "" {
						require.ErrorIs(t, err, &abi.Error{Code: test.code})
						require.ErrorContains(t, err, test.text)
						return nil, nil
					}
					require.NoError(t, err)
					require.Contains(t, res.Content.String(), test.text)
					require.Equal(t, test.tool != "echo", res.IsError)
					return nil, nil
				},
			}
			tr := runOn(t, answering(nil), agent.Options{Tools: []tool.Tool{echo("echo"), echo("hidden"), echo("denied"), fails},
				Chain: with(t, nativeEntry("gate", denies), nativeEntry("hides", hides), nativeEntry("caller", caller))})
			require.NoError(t, tr.err)
			require.True(t, called)
		})
	}
}

// TestOwnToolCycles checks that the nesting of own tool calls is limited, both for a tool that
// calls itself and for two modules that call a tool in before_tool. One hook call can make only a
// limited number of own calls.
func TestOwnToolCycles(t *testing.T) {
	t.Parallel()
	var deepest error
	var calledSelf atomic.Int64
	self := (*inproc.Middleware)(native.WithTools(native.Tool{Tool: abi.Tool{Name: "self"}}))
	self.CallTool = func(ctx context.Context, c *hook.Call, _ *abi.CallToolInput) (*abi.CallToolAnswer, error) {
		calledSelf.Add(1)
		res, err := c.Tool(ctx, "self", "")
		if err != nil {
			deepest = err
			return &abi.CallToolAnswer{Result: abi.TextResult("bottom")}, nil
		}
		return &abi.CallToolAnswer{Result: res}, nil
	}
	tr := try(
		t,
		agent.Options{Chain: with(t, nativeEntry("m", self))},
		[]scripted.Reply{calls("self#1"), scripted.Text("done")},
	)
	require.NoError(t, tr.err)
	require.ErrorIs(t, deepest, &abi.Error{Code: abi.CodeLimit})
	require.EqualValues(t, 1+contract.MaxNested, calledSelf.Load())
	require.Equal(t, 1+contract.MaxNested, tr.count(abi.EventToolCall))
	require.Contains(t, tr.seen(1), "T:bottom#1")

	var hooks atomic.Int64
	changing := func() *inproc.Middleware {
		return &inproc.Middleware{
			BeforeTool: func(ctx context.Context, c *hook.Call, _ *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error) {
				hooks.Add(1)
				_, err := c.Tool(ctx, "echo", "")
				if err != nil {
					require.ErrorIs(t, err, &abi.Error{Code: abi.CodeLimit})
				}
				return nil, nil
			},
		}
	}
	tr = try(
		t,
		agent.Options{
			Tools: []tool.Tool{echo("echo")},
			Chain: with(t, nativeEntry("a", changing()), nativeEntry("b", changing())),
		},
		[]scripted.Reply{calls("echo#1"), scripted.Text("done")},
	)
	require.NoError(t, tr.err)
	require.EqualValues(t, 2+2*contract.MaxNested, hooks.Load(), "each call passes the other's hook")

	var limited error
	many := &inproc.Middleware{
		BeforeAgent: func(ctx context.Context, c *hook.Call, _ *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			for range 65 {
				_, limited = c.Tool(ctx, "echo", "")
			}
			return nil, nil
		},
	}

	runOn(t, answering(nil), agent.Options{Tools: []tool.Tool{echo("echo")}, Chain: with(t, nativeEntry("many", many))})
	require.ErrorIs(t, limited, &abi.Error{Code: abi.CodeLimit})
}

// TestOwnToolGateOfTheCaller checks that the gate of a module whose own tool call is in progress
// judges the tool calls that other modules make within that call. Otherwise they could bypass the
// gate.
func TestOwnToolGateOfTheCaller(t *testing.T) {
	t.Parallel()
	guard := &inproc.Middleware{
		BeforeTool: func(ctx context.Context, c *hook.Call, in *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error) {
			if in.Call.By != nil {
				return nil, nil
			}
			_, err := c.Tool(ctx, "audit", in.Call.Arguments)
			return nil, err
		},
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			if in.Call.Name == "wipe" {
				return &abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "no wiping"}, nil
			}
			return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
		},
	}
	var got []string
	tenant := &inproc.Middleware{
		BeforeTool: func(ctx context.Context, c *hook.Call, in *abi.BeforeToolInput) (*abi.BeforeToolAnswer, error) {
			if in.Call.Name == "audit" {
				res, err := c.Tool(ctx, "wipe", "")
				require.NoError(t, err)
				got = append(got, res.Content.String())
			}
			return nil, nil
		},
	}
	tr := try(t, agent.Options{Tools: []tool.Tool{echo("echo"), echo("audit"), echo("wipe")},
		Chain: with(t, at(hook.Outer, "guard", guard), at(hook.Tenant, "tenant", tenant))},
		[]scripted.Reply{calls("echo#1"), scripted.Text("done")})
	require.NoError(t, tr.err)
	require.NotEmpty(t, got)
	for _, text := range got {
		require.Equal(t, "no wiping", text)
	}
}

// TestOwnToolStop checks that a stop within a module's own call ends the run, even if the module
// ignores the error. The call must still have a tool_result event.
func TestOwnToolStop(t *testing.T) {
	t.Parallel()
	stops := &inproc.Middleware{
		GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: abi.DecideStop, Message: "enough"}, nil
		},
	}
	tr := runOn(
		t,
		answering(nil),
		agent.Options{Tools: []tool.Tool{echo("echo")}, Chain: with(t, nativeEntry("stops", stops),
			nativeEntry("caller", calling("echo", "", func(_ *abi.Result, err error) { require.True(t, ending.Is(err)) })))},
	)
	var stop *ending.StoppedError
	require.ErrorAs(t, tr.err, &stop)
	require.Equal(t, "stops", tr.last().StoppedBy)
	require.Equal(t, 1, tr.count(abi.EventToolResult))
}

// TestOwnToolFaultsAtTheEnd checks that a fault within a tool call of after_agent does not change
// the run's outcome. The fault event must have the action "passed_over".
func TestOwnToolFaultsAtTheEnd(t *testing.T) {
	t.Parallel()
	faulty := &inproc.Middleware{
		WrapToolCall: func(context.Context, *hook.Call, *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			panic("no")
		},
	}
	caller := &inproc.Middleware{
		AfterAgent: func(ctx context.Context, c *hook.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			_, err := c.Tool(ctx, "echo", "")
			return nil, err
		},
	}
	tr := runOn(
		t,
		answering(nil),
		agent.Options{
			Tools: []tool.Tool{echo("echo")},
			Chain: with(t, nativeEntry("caller", caller), nativeEntry("faulty", faulty)),
		},
	)
	require.NoError(t, tr.err)
	for _, e := range tr.events {
		if e.Type == abi.EventFault {
			require.Equal(t, "passed_over", e.Action)
		}
	}
	require.Equal(t, 1, tr.count(abi.EventFault))
	require.Equal(t, abi.RunStop, tr.last().FinishReason)
}

// TestOwnToolPauses checks that a gate's question about a module's own tool call pauses the run.
// The resumed run must not repeat the hook's earlier tool and model calls, nor any event of a tool
// call.
func TestOwnToolPauses(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]string{"approved": `true`, "denied": `{"decision":"deny","message":"no"}`, "other arguments": `{"decision":"edit","arguments":"{\"n\":2}"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first, second, judged atomic.Int64
			gate := &inproc.Middleware{
				GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
					if in.Call.Name == "second" && in.Call.Arguments == "{}" {
						return &abi.GateToolAnswer{Decision: abi.DecideAsk, Message: "may it?"}, nil
					}
					return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
				},
			}
			var last string
			caller := &inproc.Middleware{
				BeforeModel: func(ctx context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
					if _, err := c.Tool(ctx, "first", ""); err != nil {
						return nil, err
					}
					if _, err := c.Model(ctx, saying("judge x")); err != nil {
						return nil, err
					}
					res, err := c.Tool(ctx, "second", "")
					if err != nil {
						return nil, err
					}
					last = res.Content.String()
					return nil, nil
				},
			}
			m := scripted.Func(func(_ int, req *model.Request) scripted.Reply {
				if strings.HasPrefix(req.Messages[0].Content.String(), "judge") {
					judged.Add(1)
				}
				return scripted.Text("done")
			})
			p := &pauser{t: t}
			var err error
			p.agent, err = agent.New(
				&agent.Options{Model: m, Tools: []tool.Tool{counting("first", &first), counting("second", &second)},
					Chain: with(t, nativeEntry("gate", gate), nativeEntry("caller", caller))},
			)
			require.NoError(t, err)
			p.drain(p.agent.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}, RunID: "r"}))
			require.NotNil(t, p.paused)
			require.Equal(t, "caller", p.paused.Interrupts[0].Call.By.Entry)
			require.EqualValues(t, []int64{1, 1, 0}, []int64{first.Load(), judged.Load(), second.Load()})
			p.one(ends)
			require.NoError(t, p.err)
			want := int64(1)
			if name == "denied" {
				want = 0
				require.Equal(t, "no", last)
			}
			require.EqualValues(t, []int64{1, 1, want}, []int64{first.Load(), judged.Load(), second.Load()})
			var reported []string
			for _, e := range p.events {
				if e.Call != nil {
					reported = append(reported, string(e.Type)+" "+e.Call.Name)
				}
			}
			require.Equal(
				t,
				[]string{"tool_call first", "tool_result first", "tool_call second", "tool_result second"},
				reported,
			)
		})
	}
}

// TestOwnToolWhereNobodyCanBeAsked checks on_chunk, which cannot pause the run. A tool call that
// asks for an answer must get an error result there.
func TestOwnToolWhereNobodyCanBeAsked(t *testing.T) {
	t.Parallel()
	interrupts := tool.Func(
		abi.Tool{Name: "asks"},
		func(context.Context, abi.Call) (*abi.Result, error) { return nil, &abi.Interrupt{Reason: "well?"} },
	)
	var got []string
	caller := &inproc.Middleware{
		OnChunk: func(ctx context.Context, c *hook.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			if !in.Final {
				return nil, nil
			}
			for _, name := range []string{"echo", "asks"} {
				res, err := c.Tool(ctx, name, "")
				require.NoError(t, err)
				require.True(t, res.IsError)
				got = append(got, res.Content.String())
			}
			return nil, nil
		},
	}
	gate := &inproc.Middleware{
		GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{
				Decision: map[bool]string{true: abi.DecideAsk, false: abi.DecideAllow}[in.Call.Name == "echo"],
			}, nil
		},
	}
	tr := runOn(
		t,
		answering(nil),
		agent.Options{
			Tools: []tool.Tool{echo("echo"), interrupts},
			Chain: with(t, nativeEntry("caller", caller), nativeEntry("gate", gate)),
		},
	)
	require.NoError(t, tr.err)
	require.Equal(
		t,
		[]string{
			"The call of echo needs an approval, which cannot be requested here.",
			"it asks for an answer, which cannot be requested here: well?",
		},
		got,
	)
}

// TestOwnToolPausedThenCanceled checks an own tool call that paused the run. It must get a
// tool_result event if the resumed run is canceled before it repeats the call.
func TestOwnToolPausedThenCanceled(t *testing.T) {
	t.Parallel()
	p := pause(t, agent.Options{Tools: []tool.Tool{echo("echo")}, Chain: with(t, nativeEntry("asks", asks("echo")),
		nativeEntry("caller", calling("echo", "", func(*abi.Result, error) {})))}, scripted.Text("done"))
	require.NotNil(t, p.paused, "%v", p.err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	events, err := p.agent.Resume(
		ctx,
		p.paused.State,
		map[string]json.RawMessage{p.paused.Interrupts[0].ID: json.RawMessage(`true`)},
	)
	require.NoError(t, err)
	p.drain(events)
	require.Error(t, p.err)
	last := p.events[len(p.events)-2]
	require.Equal(t, abi.EventToolResult, last.Type)
	require.Contains(t, last.Result.Content.String(), "cut off")
}
