package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// tcalls returns a reply with a call of the tool "t" for each id.
func tcalls(ids ...string) scripted.Reply {
	var list []abi.ToolCall
	for _, id := range ids {
		list = append(list, abi.NewToolCall(id, "t", "{}"))
	}
	return scripted.Calls(list...)
}

// counted returns a tool named "t" that counts its calls in n.
func counted(n *int) []tool.Tool {
	return []tool.Tool{tool.Func(abi.Tool{Name: "t"}, func(context.Context, abi.Call) (*abi.Result, error) {
		*n++
		return abi.TextResult("t-ok"), nil
	})}
}

// TestLimits checks how a run ends for each limit and OnLimit: the finish reason, error, answer and
// limit event, and the number of model and tool calls before the end.
func TestLimits(t *testing.T) {
	t.Parallel()
	thinking := scripted.Message(
		abi.Message{
			Role:      abi.RoleAssistant,
			Content:   abi.Text("let me see"),
			ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "t", "{}")},
		},
	)
	for _, test := range []struct {
		name     string
		steps    int
		limits   agent.Limits
		replies  []scripted.Reply
		asked    int
		ran      int
		finish   string
		answer   string
		limit    string // limit that the error names; empty if there is no error
		action   string // action of the last limit event
		toolFree bool   // whether the last request offers no tools
	}{
		{name: "steps, error", steps: 1, replies: []scripted.Reply{thinking},
			asked: 1, ran: 1, finish: abi.RunMaxSteps, limit: agent.LimitMaxSteps, action: "run_ended"},
		{name: "steps, end", steps: 1, limits: agent.Limits{OnLimit: agent.LimitEnd}, replies: []scripted.Reply{thinking},
			asked: 1, ran: 1, finish: abi.RunMaxSteps, answer: "let me see", action: "run_ended"},
		{name: "steps, end before anything was said", steps: 1, limits: agent.Limits{OnLimit: agent.LimitEnd}, replies: []scripted.Reply{tcalls("1")},
			asked: 1, ran: 1, finish: abi.RunMaxSteps, action: "run_ended"},
		{name: "steps, answer", steps: 2, limits: agent.Limits{OnLimit: agent.LimitAnswer}, replies: []scripted.Reply{thinking, scripted.Text("so it is")},
			asked: 2, ran: 1, finish: abi.RunStop, answer: "so it is", action: "last_call", toolFree: true},
		{name: "steps, calls instead of an answer", steps: 2, limits: agent.Limits{OnLimit: agent.LimitAnswer}, replies: []scripted.Reply{thinking, tcalls("2")},
			asked: 2, ran: 1, finish: abi.RunMaxSteps, answer: "let me see", action: "run_ended", toolFree: true},
		{name: "steps, calls and nothing said", steps: 2, limits: agent.Limits{OnLimit: agent.LimitAnswer}, replies: []scripted.Reply{tcalls("1"), tcalls("2")},
			asked: 2, ran: 1, finish: abi.RunMaxSteps, limit: agent.LimitMaxSteps, action: "run_ended", toolFree: true},
		{name: "model calls, error", limits: agent.Limits{ModelCalls: 2}, replies: []scripted.Reply{tcalls("1"), tcalls("2")},
			asked: 2, ran: 2, finish: abi.RunLimit, limit: agent.LimitModelCalls, action: "run_ended"},
		{name: "model calls, answer", limits: agent.Limits{ModelCalls: 2, OnLimit: agent.LimitAnswer}, replies: []scripted.Reply{tcalls("1"), scripted.Text("done")},
			asked: 2, ran: 1, finish: abi.RunStop, answer: "done", action: "last_call", toolFree: true},
		{name: "tool calls, error: none of the message's is run", limits: agent.Limits{ToolCalls: 2}, replies: []scripted.Reply{tcalls("1"), tcalls("2", "3")},
			asked: 2, ran: 1, finish: abi.RunLimit, limit: agent.LimitToolCalls, action: "run_ended"},
		{name: "tool calls, end", limits: agent.Limits{ToolCalls: 1, OnToolLimit: agent.LimitEnd}, replies: []scripted.Reply{thinking, tcalls("2")},
			asked: 2, ran: 1, finish: abi.RunLimit, answer: "let me see", action: "run_ended"},
		{name: "tool calls, answer", limits: agent.Limits{ToolCalls: 2, OnToolLimit: agent.LimitAnswer}, replies: []scripted.Reply{tcalls("1"), tcalls("2", "3"), scripted.Text("done")},
			asked: 3, ran: 2, finish: abi.RunStop, answer: "done", action: "refused", toolFree: true},
		{name: "tool calls, refuse", limits: agent.Limits{ToolCalls: 1, OnToolLimit: agent.LimitRefuse}, replies: []scripted.Reply{tcalls("1", "2"), tcalls("3"), scripted.Text("done")},
			asked: 3, ran: 1, finish: abi.RunStop, answer: "done", action: "refused"},
		{name: "one tool", limits: agent.Limits{Tools: map[string]int{"t": 1}}, replies: []scripted.Reply{tcalls("1"), tcalls("2")},
			asked: 2, ran: 1, finish: abi.RunLimit, limit: agent.LimitToolCalls, action: "run_ended"},
		{name: "another tool", limits: agent.Limits{Tools: map[string]int{"u": 1}}, replies: []scripted.Reply{tcalls("1"), tcalls("2"), scripted.Text("done")},
			asked: 3, ran: 2, finish: abi.RunStop, answer: "done"},
		{name: "what reaches no tool does not count", limits: agent.Limits{ToolCalls: 1}, replies: []scripted.Reply{
			scripted.Calls(abi.NewToolCall("1", "none", "{}"), abi.NewToolCall("2", "t", "{"), abi.NewToolCall("3", "t", "{}")),
			scripted.Text("done"),
		},
			asked: 2, ran: 1, finish: abi.RunStop, answer: "done"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ran := 0
			tr := try(
				t,
				agent.Options{MaxSteps: test.steps, Limits: test.limits, Tools: counted(&ran), Parallel: 1},
				test.replies,
			)
			require.Equal(t, test.finish, tr.last().FinishReason)
			require.Equal(t, test.ran, ran)
			requests := tr.model.Requests()
			require.Len(t, requests, test.asked)
			require.Equal(t, test.toolFree, len(requests[test.asked-1].Tools) == 0)
			var limited *ending.LimitError
			require.Equal(t, test.limit != "", errors.As(tr.err, &limited))
			if test.limit != "" {
				require.Equal(t, test.limit, limited.Limit)
				require.Equal(t, abi.CodeLimit, tr.last().Error.Code)
				require.Nil(t, tr.last().Message)
			} else {
				require.NoError(t, tr.err)
				require.Nil(t, tr.last().Error)
			}
			if test.answer != "" {
				require.Equal(t, test.answer, tr.last().Message.Content.String())
				require.Empty(t, tr.last().Message.ToolCalls)
			}
			action := ""
			for _, e := range tr.events {
				if e.Type == abi.EventLimit {
					action = e.Action
				}
			}
			require.Equal(t, test.action, action)
		})
	}
}

func TestModelCallsOfOneStep(t *testing.T) {
	t.Parallel()
	entry := hook.Entry{
		Name: "judge",
		Middleware: &inproc.Middleware{
			AfterModel: func(_ context.Context, _ *hook.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
				return &abi.AfterModelAnswer{Again: &abi.ModelAgain{Reason: "better, please"}}, nil
			},
		},
	}
	c, err := chain.New(entry)
	require.NoError(t, err)
	tr := try(
		t,
		agent.Options{Chain: c, NoStream: true, Limits: agent.Limits{ModelCalls: 2}},
		[]scripted.Reply{scripted.Text("a"), scripted.Text("b"), scripted.Text("c")},
	)
	require.Len(t, tr.model.Requests(), 2)
	require.Equal(t, abi.RunLimit, tr.last().FinishReason)
	require.ErrorContains(t, tr.err, "all its 2 model calls")
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limits agent.Limits
		want   string
	}{
		{agent.Limits{ModelCalls: -1}, "want numbers above 0"},
		{agent.Limits{OnLimit: "refuse"}, "want error, end or answer"},
		{agent.Limits{OnToolLimit: "stop"}, "want error, end, answer or refuse"},
		{agent.Limits{Tools: map[string]int{"t": 0}}, "remove the tool from the agent"},
	} {
		_, err := agent.New(&agent.Options{Model: scripted.New(), Limits: test.limits})
		require.ErrorContains(t, err, test.want)
	}
}

// TestCallRejectedByAnOuterRunDoesNotCount checks a tool call of a sub-agent that a limit of the
// outer run rejects. The call must not count in the sub-agent's own limits.
func TestCallRejectedByAnOuterRunDoesNotCount(t *testing.T) {
	t.Parallel()
	child, _ := agentOf(
		t,
		agent.Options{
			Name:     "researcher",
			Tools:    []tool.Tool{echo("t"), echo("u")},
			Limits:   agent.Limits{ToolCalls: 2, OnToolLimit: agent.LimitRefuse},
			Parallel: 1,
		},
		calls("t#1", "t#2", "u#3"),
		scripted.Text("done"),
	)
	parent, _ := agentOf(
		t,
		agent.Options{
			Tools:  []tool.Tool{agent.Tool(child, nil)},
			Limits: agent.Limits{Tools: map[string]int{"researcher/t": 1}},
		},
		ask("c", "look"),
		scripted.Text("so it is"),
	)
	events, err := eventsOf(t, parent, agent.Input{})
	require.NoError(t, err)
	rejected := map[string]bool{}
	for _, e := range events {
		if e.Type == abi.EventChild && e.Event.Type == abi.EventToolResult {
			rejected[e.Event.Call.ID] = e.Event.Result.IsError
		}
	}
	require.Equal(t, map[string]bool{"1": false, "2": true, "3": false}, rejected)
}
