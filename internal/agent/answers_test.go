package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// TestToolMessagesFollowResults checks that the messages that tool_messages adds follow all results
// of the round. Otherwise a call would seem to have no result.
func TestToolMessagesFollowResults(t *testing.T) {
	t.Parallel()
	beside := &inproc.Middleware{
		ToolMessages: func(_ context.Context, _ *hook.Call, in *abi.ToolMessagesInput) (*abi.ToolMessagesAnswer, error) {
			return &abi.ToolMessagesAnswer{Messages: []abi.Message{abi.User("see " + in.Call.ID), in.Default}}, nil
		},
	}
	tr := try(t, agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")}, Chain: with(t, nativeEntry("m", beside))},
		[]scripted.Reply{calls("t#1", "t#2"), scripted.Text("done")})
	require.NoError(t, tr.err)
	require.Equal(t, []string{"U:hi", "A:[t#1][t#2]", "T:ok#1", "T:ok#2", "U:see 1", "U:see 2"}, tr.seen(1))
}

func TestAnAnswerIsTakenAway(t *testing.T) {
	t.Parallel()
	remove := func(in abi.List) abi.ListPatch {
		return abi.ListPatch{Splice: []abi.Splice{{At: in.Total - 1, Remove: 1}}}
	}
	afterTools := &inproc.Middleware{
		AfterTools: func(_ context.Context, _ *hook.Call, in *abi.AfterToolsInput) (*abi.AfterToolsAnswer, error) {
			return &abi.AfterToolsAnswer{Messages: remove(in.Messages)}, nil
		},
	}
	tr := try(t, agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")}, Chain: with(t, nativeEntry("m", afterTools))},
		[]scripted.Reply{calls("t#1"), scripted.Text("done")})
	require.ErrorContains(t, tr.err, `m: after_tools: messages: the call "1" has no result`)

	before := &inproc.Middleware{
		BeforeModelRewriteState: func(
			_ context.Context, c *hook.Call, in *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			if in.Run.Step == 1 {
				return nil, nil
			}
			return &abi.BeforeModelRewriteStateAnswer{Messages: remove(in.Messages)}, nil
		},
	}
	tr = try(t, agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")}, Chain: with(t, nativeEntry("m", before))},
		[]scripted.Reply{calls("t#1"), scripted.Text("done")})
	require.Equal(
		t,
		[]string{"U:hi", "A:[t#1]", "T:The result of this call of t is no longer in the conversation.#1"},
		tr.seen(1),
	)
	require.Equal(t, 1, tr.count(abi.EventToolCall), "the events of the call are not repeated")
	require.Equal(t, 1, tr.count(abi.EventToolResult))
	require.Equal(t, 1, tr.count(abi.EventRepair))
}

// TestCompactedHistory checks that the host tracks the run's own messages and calls after a module
// has removed earlier messages.
func TestCompactedHistory(t *testing.T) {
	t.Parallel()
	var newFrom, total int
	compact := &inproc.Middleware{
		BeforeModelRewriteState: func(
			_ context.Context, _ *hook.Call, in *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			return &abi.BeforeModelRewriteStateAnswer{
				Messages: abi.ListPatch{Splice: []abi.Splice{{At: 0, Remove: in.Messages.Total - 1}}},
			}, nil
		},
		GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: abi.DecideStop, Message: "enough"}, nil
		},
		AfterAgent: func(_ context.Context, _ *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			newFrom, total = in.NewFrom, in.Messages.Total
			return nil, nil
		},
	}
	history := []abi.Message{abi.User("1"), abi.Assistant("2"), abi.User("3"), abi.Assistant("4"), abi.User("5")}
	tr := try(
		t,
		agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")}, Chain: with(t, nativeEntry("m", compact))},
		[]scripted.Reply{calls("t#1", "t#2")},
		history...)
	require.Equal(t, 2, tr.count(abi.EventToolResult))
	require.Equal(t, 1, newFrom)
	require.Equal(t, 4, total)
}

func TestRespondWithCalls(t *testing.T) {
	t.Parallel()
	respond := &inproc.Middleware{
		BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			return &abi.BeforeAgentAnswer{
				Respond: &abi.Message{Role: "assistant", ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "t", "{}")}},
			}, nil
		},
	}
	tr := try(
		t,
		agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")}, Chain: with(t, nativeEntry("m", respond))},
		[]scripted.Reply{scripted.Text("done")},
	)
	require.Equal(t, []string{"U:hi", "A:[t#1]", "T:ok#1"}, tr.seen(0))
}

func TestMessageEventsAreAnAssistants(t *testing.T) {
	t.Parallel()
	did := false
	remove := (*inproc.Middleware)(
		rewritesAfter(func(_ context.Context, m []abi.Message) ([]abi.Message, error) {
			if did {
				return m, nil
			}
			did = true
			return m[:1], nil
		}),
	)
	tr := try(
		t,
		agent.Options{Chain: with(t, nativeEntry("m", remove))},
		[]scripted.Reply{scripted.Text("gone"), scripted.Text("done")},
	)
	require.Equal(t, 1, tr.count(abi.EventMessage))

	fails := &inproc.Middleware{
		AfterModelRewriteState: func(
			context.Context, *hook.Call, *abi.AfterModelRewriteStateInput,
		) (*abi.AfterModelRewriteStateAnswer, error) {
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: "no"}
		},
	}
	tr = try(
		t,
		agent.Options{Tools: []tool.Tool{toolNamed("t", "ok")}, Chain: with(t, nativeEntry("m", fails))},
		[]scripted.Reply{calls("t#1")},
	)
	require.Equal(t, 1, tr.count(abi.EventMessage), "whoever hears of the calls has heard of their message")
	require.Equal(t, 1, tr.count(abi.EventToolResult))
}

func TestACallThatRanIsNotSaidToBeCutOff(t *testing.T) {
	t.Parallel()
	stop := &inproc.Middleware{
		AfterTool: func(context.Context, *hook.Call, *abi.AfterToolInput) (*abi.AfterToolAnswer, error) {
			return &abi.AfterToolAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "seen enough"}}}, nil
		},
	}
	tr := try(
		t,
		agent.Options{Tools: []tool.Tool{toolNamed("t", "secret")}, Chain: with(t, nativeEntry("m", stop))},
		[]scripted.Reply{calls("t#1")},
	)
	require.Equal(t, []string{"1=The call of t was made; its result was withheld when the run ended."}, tr.results())
}

func TestFinalIsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, m := range []abi.Message{abi.User("x"), {Role: "assistant", ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "t", "{}")}}} {
		end := &inproc.Middleware{
			AfterAgent: func(context.Context, *hook.Call, *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
				return &abi.AfterAgentAnswer{Final: &m}, nil
			},
		}
		tr := try(t, agent.Options{Chain: with(t, nativeEntry("m", end))}, []scripted.Reply{scripted.Text("done")})
		require.Equal(t, 1, tr.count(abi.EventFault))
		require.Equal(t, "done", tr.last().Message.Content.String())
	}
}

func TestNamesThatStandForSomethingElse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"host", "model", "tool", "a\nb", "a\x1b[31m"} {
		_, err := chain.New(nativeEntry(name, &inproc.Middleware{}))
		require.Error(t, err, name)
	}
}

func TestReadNone(t *testing.T) {
	t.Parallel()
	var seen []string
	spy := &inproc.Middleware{
		Observe: func(_ context.Context, _ *hook.Call, in *abi.ObserveInput) (*abi.ObserveAnswer, error) {
			b, err := abijson.Marshal(in.Events)
			seen = append(seen, string(b))
			return nil, err
		},
		AfterAgent: func(_ context.Context, _ *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			b, err := abijson.Marshal(in)
			seen = append(seen, string(b))
			return nil, err
		},
	}
	e := nativeEntry("spy", spy)
	e.Read = hook.ReadNone
	tr := try(t, agent.Options{Chain: with(t, e)}, []scripted.Reply{scripted.Text("SECRET")})
	require.NoError(t, tr.err)
	require.NotEmpty(t, seen)
	require.NotContains(t, strings.Join(seen, ""), "SECRET")
}

func TestAModelThatPanicsWhileItStreams(t *testing.T) {
	t.Parallel()
	r := scripted.Text("x")
	r.Do = func(context.Context, *model.Request) error { panic("boom") }
	tr := try(t, agent.Options{}, []scripted.Reply{r})
	require.ErrorContains(t, tr.err, "the model's client failed: boom")
}
