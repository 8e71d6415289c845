package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func agentOf(t *testing.T, o agent.Options, replies ...scripted.Reply) (*agent.Agent, *scripted.Model) {
	t.Helper()
	m := scripted.New(replies...)
	o.Model = m
	a, err := agent.New(&o)
	require.NoError(t, err)
	return a, m
}

// ask returns a reply with a call of the sub-agent "researcher".
func ask(id, request string) scripted.Reply {
	b, _ := json.Marshal(map[string]string{"request": request})
	return scripted.Calls(abi.NewToolCall(id, "researcher", string(b)))
}

// used returns r with the given number of prompt tokens as its usage.
func used(r scripted.Reply, prompt int64) scripted.Reply {
	r.Response.Usage = &abi.Usage{PromptTokens: prompt, TotalTokens: prompt}
	return r
}

func eventsOf(t *testing.T, a *agent.Agent, in agent.Input) ([]abi.Event, error) {
	t.Helper()
	var events []abi.Event
	var last error
	in.Messages, in.RunID = []abi.Message{abi.User("hi")}, "r"
	for e, err := range a.Run(t.Context(), in) {
		events, last = append(events, e), err
		require.EqualValues(t, len(events), e.Seq)
		require.Equal(t, "r", e.Run)
	}
	return events, last
}

func lastOf(events []abi.Event) abi.Event { return events[len(events)-1] }

// TestAnAgentAsATool checks what the model and the hooks of a sub-agent's run receive, and which
// events the run has. Its answer and usage must become part of the outer run.
func TestAnAgentAsATool(t *testing.T) {
	t.Parallel()
	var seen abi.Run
	look := nativeEntry(
		"look",
		&inproc.Middleware{
			BeforeModel: func(_ context.Context, c *hook.Call, in *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
				seen = in.Run
				n, err := c.LocalAdd("calls", 1)
				require.EqualValues(t, 1, n, "run-local values are the run's own")
				return nil, err
			},
		},
	)
	child, cm := agentOf(
		t,
		agent.Options{Name: "researcher", Instruction: "Research.", Chain: with(t, look)},
		used(scripted.Text("forty-two"), 5),
	)
	parent, pm := agentOf(
		t,
		agent.Options{Name: "boss", Tools: []tool.Tool{agent.Tool(child, &agent.ToolOptions{Description: "Finds out."})}},
		used(ask("1", "what is it?"), 3),
		used(scripted.Text("it is 42"), 4),
	)
	events, err := eventsOf(t, parent, agent.Input{Metadata: abi.Params{"user": json.RawMessage(`"u1"`)}})
	require.NoError(t, err)
	require.Equal(t, []string{"S:Research.", "U:what is it?"}, short(cm.Requests()[0].Messages))
	require.Equal(t, []string{"U:hi", "A:[researcher#1]", "T:forty-two#1"}, short(pm.Requests()[1].Messages))
	require.Equal(t, "Finds out.", pm.Requests()[0].Tools[0].Description)

	require.Equal(t, "r", seen.Parent)
	require.Equal(t, "r.1.1", seen.ID)
	require.Equal(t, "researcher", seen.Agent)
	require.JSONEq(t, `"u1"`, string(seen.Metadata["user"]))
	require.EqualValues(t, 12, lastOf(events).Usage.PromptTokens, "the parent's usage includes the child's")

	var inner []abi.EventType
	for _, e := range events {
		if e.Type == abi.EventChild {
			require.Equal(t, "1", e.Call.ID)
			require.Equal(t, "r.1.1", e.Event.Run)
			inner = append(inner, e.Event.Type)
		}
		if e.Type == abi.EventToolResult {
			require.JSONEq(t, `{"run":"r.1.1","agent":"researcher","finish_reason":"stop"}`, string(e.Result.Extra))
		}
	}
	require.Equal(
		t,
		[]abi.EventType{
			abi.EventRunStarted,
			abi.EventStepStarted,
			abi.EventMessage,
			abi.EventStepFinished,
			abi.EventRunFinished,
		},
		inner,
	)
}

func TestWhatIsForwarded(t *testing.T) {
	t.Parallel()
	grandchild, _ := agentOf(t, agent.Options{Name: "researcher"}, scripted.Text("deep"))
	child, _ := agentOf(
		t,
		agent.Options{Name: "researcher", Tools: []tool.Tool{agent.Tool(grandchild, nil)}},
		ask("g", "deeper"),
		scripted.Text("less deep"),
	)
	parent, _ := agentOf(
		t,
		agent.Options{
			Tools: []tool.Tool{
				agent.Tool(child, &agent.ToolOptions{Forward: []abi.EventType{abi.EventMessage, abi.EventChunk}}),
			},
		},
		ask("c", "go"),
		scripted.Text("done"),
	)
	events, err := eventsOf(t, parent, agent.Input{})
	require.NoError(t, err)
	var got []string
	for _, e := range events {
		if e.Type == abi.EventChild {
			require.Equal(t, "c", e.Call.ID)
			require.NotEqual(t, abi.EventChild, e.Event.Type, "an event of any depth is in one child event")
			text := string(e.Event.Type) + " " + e.Event.Run
			if e.Event.Message != nil {
				text += " " + e.Event.Message.Content.String()
			}
			got = append(got, text)
		}
	}
	require.Equal(
		t,
		[]string{"message r.1.c ", "message r.1.c.1.g deep", "chunk r.1.c", "message r.1.c less deep"},
		got[1:],
		"%q",
		got,
	)
}

func TestAChildsFailureIsAnErrorResult(t *testing.T) {
	t.Parallel()
	stop := nativeEntry(
		"guard",
		&inproc.Middleware{
			BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
				return &abi.BeforeModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "enough"}}}, nil
			},
		},
	)
	for _, test := range []struct {
		name  string
		o     agent.Options
		reply []scripted.Reply
		want  string
	}{
		{"its model fails", agent.Options{}, []scripted.Reply{{Err: model.Errorf(abi.CodeModel, "overloaded")}}, "Agent researcher did not produce an answer: the model that the agent asks failed: it answered with an error, or broke off"},
		{"it is stopped", agent.Options{Chain: with(t, stop)}, nil, "Agent researcher did not produce an answer: guard stopped the run: enough"},
		{"its time-out", agent.Options{Timeout: time.Millisecond}, []scripted.Reply{{Hang: true}}, "Agent researcher did not produce an answer: the run did not end within its timeout of 1ms"},
		{"its limit", agent.Options{MaxSteps: 1, Limits: agent.Limits{OnLimit: agent.LimitEnd}}, []scripted.Reply{calls("none#1")}, "Agent researcher ended without an answer (max_steps)."},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := test.o
			o.Name = "researcher"
			child, _ := agentOf(t, o, test.reply...)
			parent, _ := agentOf(
				t,
				agent.Options{Tools: []tool.Tool{agent.Tool(child, nil)}},
				ask("1", "go"),
				scripted.Text("I cannot"),
			)
			events, err := eventsOf(t, parent, agent.Input{})
			require.NoError(t, err)
			for _, e := range events {
				if e.Type == abi.EventToolResult {
					require.True(t, e.Result.IsError)
					require.Equal(t, test.want, e.Result.Content.String())
				}
			}
		})
	}
}

func TestCancelReachesTheChild(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 1)
	note := nativeEntry(
		"note",
		&inproc.Middleware{
			AfterAgent: func(_ context.Context, _ *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
				ended <- in.FinishReason
				return nil, nil
			},
		},
	)
	ctx, cancel := context.WithCancel(t.Context())
	hang := scripted.Reply{Hang: true}
	hang.Do = func(context.Context, *model.Request) error { cancel(); return nil }
	child, _ := agentOf(t, agent.Options{Name: "researcher", Chain: with(t, note)}, hang)
	parent, _ := agentOf(t, agent.Options{Tools: []tool.Tool{agent.Tool(child, nil)}}, ask("1", "go"))
	var err error
	for _, err = range parent.Run(ctx, agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
	}
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, abi.RunCanceled, <-ended, "the child came to its end before the parent did")
}

// askingAgent returns an agent named "researcher" with a gate that asks for an approval of each
// call of its tool.
func askingAgent(t *testing.T, replies ...scripted.Reply) *agent.Agent {
	gate := nativeEntry(
		"gate",
		&inproc.Middleware{
			GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
				return &abi.GateToolAnswer{Decision: abi.DecideAsk, Message: "call " + in.Call.ID + "?"}, nil
			},
		},
	)
	a, _ := agentOf(
		t,
		agent.Options{Name: "researcher", Tools: []tool.Tool{toolNamed("t", "t-ok")}, Chain: with(t, gate)},
		replies...)
	return a
}

// TestAnInterruptInAChild checks that the interrupts of a sub-agent pause the outer run, and that
// they can be answered one by one in different processes.
func TestAnInterruptInAChild(t *testing.T) {
	t.Parallel()
	child := askingAgent(t, calls("t#a", "t#b"), scripted.Text("both done"))
	ran := 0
	parent, pm := agentOf(
		t,
		agent.Options{Tools: append(counted(&ran), agent.Tool(child, nil))},
		scripted.Calls(
			abi.NewToolCall("1", "researcher", `{"request":"go"}`),
			abi.NewToolCall("2", "t", "{}"),
		),
		scripted.Text("done"),
	)
	_, err := eventsOf(t, parent, agent.Input{})
	ids := func(err error) (out []string) {
		var paused *agent.PausedError
		require.ErrorAs(t, err, &paused)
		for _, p := range paused.Interrupts {
			require.Equal(t, "r.1.1", p.Run)
			require.Equal(t, "researcher", p.Agent)
			require.Equal(t, contract.HookGateTool, p.Hook)
			out = append(out, p.ID+" "+p.Reason)
		}
		return out
	}
	waits := ids(err)
	require.Len(t, waits, 2)
	var paused *agent.PausedError
	require.ErrorAs(t, err, &paused)

	_, err = parent.Resume(
		t.Context(),
		paused.State,
		map[string]json.RawMessage{paused.Interrupts[0].ID: json.RawMessage(`"perhaps"`)},
	)
	require.ErrorContains(t, err, "answer to int_", "an invalid answer is rejected before the run resumes")
	_, err = parent.Resume(t.Context(), paused.State, map[string]json.RawMessage{"1/int_99": json.RawMessage("true")})
	require.ErrorContains(t, err, `no interrupt "1/int_99" waits for an answer; those that do: 1/int_`)

	resume := func(id string) (events []abi.Event, err error) {
		b, err := json.Marshal(paused.State) // as in another process
		require.NoError(t, err)
		var state runlog.State
		require.NoError(t, json.Unmarshal(b, &state))
		seq, err := parent.Resume(t.Context(), &state, map[string]json.RawMessage{id: json.RawMessage("true")})
		require.NoError(t, err)
		for e, ended := range seq {
			events, err = append(events, e), ended
		}
		return events, err
	}
	second := paused.Interrupts[1]
	_, err = resume(paused.Interrupts[0].ID)
	require.Equal(t, waits[1:], ids(err), "the other waits on, under its id")
	require.ErrorAs(t, err, &paused)
	events, err := resume(second.ID)
	require.NoError(t, err)
	require.Equal(t, "done", lastOf(events).Message.Content.String())
	require.Equal(
		t,
		[]string{"U:hi", "A:[researcher#1][t#2]", "T:both done#1", "T:t-ok#2"},
		short(pm.Requests()[1].Messages),
	)
	require.Equal(t, 1, ran, "its sibling did not run again")
}

func TestEachRunOfACallHasItsOwnIDs(t *testing.T) {
	t.Parallel()
	child := askingAgent(t, calls("t#a"), scripted.Text("one"), calls("t#a"), scripted.Text("two"))
	twice := nativeEntry(
		"twice",
		&inproc.Middleware{
			WrapToolCall: func(ctx context.Context, c *hook.Call, _ *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
				if _, err := c.NextTool(ctx, abi.CallPatch{}); err != nil {
					return nil, err
				}
				res, err := c.NextTool(ctx, abi.CallPatch{})
				return &abi.WrapToolCallAnswer{Result: res}, err
			},
		},
	)
	parent, pm := agentOf(
		t,
		agent.Options{Tools: []tool.Tool{agent.Tool(child, nil)}, Chain: with(t, twice)},
		ask("1", "go"),
		scripted.Text("done"),
	)
	var runs, ids []string
	_, err := eventsOf(t, parent, agent.Input{})
	for range 2 {
		var paused *agent.PausedError
		require.ErrorAs(t, err, &paused)
		require.Len(t, paused.Interrupts, 1)
		p := paused.Interrupts[0]
		runs, ids = append(runs, p.Run), append(ids, p.ID)
		b, failed := json.Marshal(paused.State) // as in another process
		require.NoError(t, failed)
		var state runlog.State
		require.NoError(t, json.Unmarshal(b, &state))
		seq, failed := parent.Resume(t.Context(), &state, map[string]json.RawMessage{p.ID: json.RawMessage("true")})
		require.NoError(t, failed)
		for _, ended := range seq {
			err = ended
		}
	}
	require.NoError(t, err)
	require.Equal(t, []string{"r.1.1", "r.1.1.2"}, runs)
	require.NotEqual(t, ids[0], ids[1], "an answer to the first question is none to the second")
	require.Equal(t, []string{"U:hi", "A:[researcher#1]", "T:two#1"}, short(pm.Requests()[1].Messages))
}

func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	a, _ := agentOf(t, agent.Options{Name: "researcher"}, scripted.Text("the bottom"))
	for range agent.MaxDepth {
		a, _ = agentOf(
			t,
			agent.Options{Name: "researcher", Tools: []tool.Tool{agent.Tool(a, nil)}},
			ask("1", "deeper"),
			scripted.Text("up again"),
		)
	}
	a, _ = agentOf(t, agent.Options{Tools: []tool.Tool{agent.Tool(a, nil)}}, ask("1", "deeper"), scripted.Text("up again"))
	events, err := eventsOf(t, a, agent.Input{})
	require.NoError(t, err)
	found := false
	for _, e := range events {
		if e.Type == abi.EventChild && e.Event.Type == abi.EventToolResult && e.Event.Result.IsError {
			require.Contains(t, e.Event.Result.Content.String(), "runs can be nested 8 deep")
			found = true
		}
	}
	require.True(t, found)
}

func TestAnAgentOutsideOfARun(t *testing.T) {
	t.Parallel()
	a, _ := agentOf(t, agent.Options{Name: "researcher"}, scripted.Text("forty-two"))
	res, err := agent.Tool(a, nil).Call(t.Context(), abi.Call{ID: "1", Name: "researcher", Arguments: `{"request":"go"}`})
	require.NoError(t, err)
	require.Equal(t, "forty-two", res.Content.String())
	_, err = agent.Tool(a, nil).Call(t.Context(), abi.Call{ID: "1", Name: "researcher", Arguments: `{}`})
	require.ErrorContains(t, err, "want {\"request\"")
	_, err = agent.Tool(askingAgent(t, calls("t#a")), nil).
		Call(t.Context(), abi.Call{ID: "1", Name: "researcher", Arguments: `{"request":"go"}`})
	require.ErrorContains(t, err, "its caller cannot ask for one")
	var interrupt *abi.Interrupt
	require.False(t, errors.As(err, &interrupt))
}
