package agent_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// transfer returns a reply with a call that transfers the conversation to an agent.
func transfer(id, to string) scripted.Reply {
	b, _ := json.Marshal(map[string]string{"agent": to})
	return scripted.Calls(abi.NewToolCall(id, agent.TransferTool, string(b)))
}

// traced returns an entry that appends each before_agent and after_agent to log. For before_agent,
// it also appends two counts of turns: of the agent, and of all agents in the run.
func traced(name string, log *[]string) hook.Entry {
	return nativeEntry("trace", &inproc.Middleware{
		BeforeAgent: func(_ context.Context, c *hook.Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			own, err := c.LocalAdd("turns", 1)
			if err != nil {
				return nil, err
			}
			shared, err := c.LocalAdd("run/turns", 1)
			*log = append(*log, name+" before "+in.Run.Agent+" "+string(rune('0'+own))+string(rune('0'+shared)))
			return nil, err
		},
		AfterAgent: func(_ context.Context, _ *hook.Call, in *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			*log = append(*log, name+" after "+in.FinishReason)
			return nil, nil
		},
	})
}

// TestTransfer checks the hooks, requests, events and statistics of a run that is transferred to
// another agent and back.
func TestTransfer(t *testing.T) {
	t.Parallel()
	var log []string
	sales, sm := agentOf(
		t,
		agent.Options{
			Name:        "sales",
			Description: "Sells.",
			Instruction: "Sell.",
			Chain:       with(t, traced("sales", &log)),
			Tools:       []tool.Tool{toolNamed("price", "7")},
		},
		calls("price#2"),
		transfer("3", "front"),
	)
	front, fm := agentOf(
		t,
		agent.Options{Name: "front", Instruction: "Greet.", Chain: with(t, traced("front", &log))},
		transfer("1", "sales"),
		scripted.Text("goodbye"),
	)
	require.NoError(t, front.AllowTransfer(sales))
	require.NoError(t, sales.AllowTransfer(front))
	events, err := eventsOf(t, front, agent.Input{})
	require.NoError(t, err)
	require.Equal(
		t,
		[]string{
			"front before front 11",
			"front after transfer",
			"sales before sales 12",
			"sales after transfer",
			"front before front 23",
			"front after stop",
		},
		log,
	)
	require.Contains(t, fm.Requests()[0].Tools[0].Description, "- sales: Sells.")
	require.Equal(
		t,
		[]string{"S:Sell.", "U:hi", "A:[transfer_to_agent#1]", "T:The conversation continues with sales.#1"},
		short(sm.Requests()[0].Messages),
	)
	require.Len(t, sm.Requests()[0].Tools, 2)
	require.Equal(t, "S:Greet.", short(fm.Requests()[1].Messages)[0])
	require.Len(t, fm.Requests()[1].Messages, 8)

	var transfers []string
	for _, e := range events {
		if e.Type == abi.EventTransfer {
			transfers = append(transfers, e.From+">"+e.Agent)
		}
	}
	require.Equal(t, []string{"front>sales", "sales>front"}, transfers)
	require.Equal(t, "goodbye", lastOf(events).Message.Content.String())
	var entries []string
	for _, e := range lastOf(events).Entries {
		entries = append(entries, e.Agent+"/"+e.Entry)
	}
	require.Equal(t, []string{"front/trace", "sales/trace", "front/trace"}, entries)
}

func TestTransfersAreBoundedByTheSteps(t *testing.T) {
	t.Parallel()
	there := func(n int) (out []scripted.Reply) {
		for range n {
			out = append(out, transfer("1", "b"))
		}
		return out
	}
	back := func(n int) (out []scripted.Reply) {
		for range n {
			out = append(out, transfer("1", "a"))
		}
		return out
	}
	a, am := agentOf(t, agent.Options{Name: "a", MaxSteps: 5}, there(9)...)
	b, bm := agentOf(t, agent.Options{Name: "b", MaxSteps: 100}, back(9)...)
	require.NoError(t, a.AllowTransfer(b))
	require.NoError(t, b.AllowTransfer(a))
	events, err := eventsOf(t, a, agent.Input{})
	require.ErrorContains(t, err, "all its 5 steps")
	require.Equal(t, abi.RunMaxSteps, lastOf(events).FinishReason)
	require.Len(t, am.Requests(), 3)
	require.Len(t, bm.Requests(), 2)
}

func TestTransfersThatAreNone(t *testing.T) {
	t.Parallel()
	deny := nativeEntry(
		"deny",
		&inproc.Middleware{
			GateTool: func(_ context.Context, _ *hook.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
				if in.Call.ID == "denied" {
					return &abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "stay"}, nil
				}
				return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
			},
		},
	)
	b, bm := agentOf(t, agent.Options{Name: "b"}, scripted.Text("b here"))
	c, cm := agentOf(t, agent.Options{Name: "c"}, scripted.Text("c here"))
	a, _ := agentOf(
		t,
		agent.Options{Name: "a", Chain: with(t, deny)},
		transfer("denied", "b"),
		transfer("2", "bb"),
		scripted.Calls(
			abi.NewToolCall("3", agent.TransferTool, `{"agent":"b"}`),
			abi.NewToolCall("4", agent.TransferTool, `{"agent":"c"}`),
		),
	)
	require.NoError(t, a.AllowTransfer(b, c))
	events, err := eventsOf(t, a, agent.Input{})
	require.NoError(t, err)
	var results []string
	for _, e := range events {
		if e.Type == abi.EventToolResult {
			results = append(results, e.Call.ID+" "+e.Result.Content.String())
		}
	}
	require.ElementsMatch(
		t,
		[]string{
			"denied stay",
			`2 There is no agent "bb". Did you mean b? Available agents: b, c.`,
			"3 The conversation continues with b.",
			"4 The conversation can be transferred to one agent only: the first of these calls counts.",
		},
		results,
	)
	require.Len(t, bm.Requests(), 1)
	require.Empty(t, cm.Requests())
	require.Equal(t, "b here", lastOf(events).Message.Content.String())
}

func TestAPauseAfterATransfer(t *testing.T) {
	t.Parallel()
	b := askingAgent(t, calls("t#2"), scripted.Text("done"))
	a, _ := agentOf(t, agent.Options{Name: "a"}, transfer("1", "researcher"))
	require.NoError(t, a.AllowTransfer(b))
	_, err := eventsOf(t, a, agent.Input{})
	var paused *agent.PausedError
	require.ErrorAs(t, err, &paused)
	require.Equal(t, "researcher", paused.State.Agent)
	bytes, err := json.Marshal(paused.State)
	require.NoError(t, err)
	var state runlog.State
	require.NoError(t, json.Unmarshal(bytes, &state))
	events, err := a.Resume(
		t.Context(),
		&state,
		map[string]json.RawMessage{paused.Interrupts[0].ID: json.RawMessage("true")},
	)
	require.NoError(t, err)
	var end abi.Event
	for end, err = range events {
	}
	require.NoError(t, err)
	require.Equal(t, "done", end.Message.Content.String())

	unknown, _ := agentOf(t, agent.Options{Name: "a"})
	other, _ := agentOf(t, agent.Options{Name: "other"})
	require.NoError(t, unknown.AllowTransfer(other))
	_, err = unknown.Resume(
		t.Context(),
		&state,
		map[string]json.RawMessage{paused.Interrupts[0].ID: json.RawMessage("true")},
	)
	require.ErrorContains(t, err, `the run is at agent "researcher"`)
}

func TestWhoMayTransfer(t *testing.T) {
	t.Parallel()
	a, _ := agentOf(t, agent.Options{Name: "a"})
	b, _ := agentOf(t, agent.Options{Name: "b"})
	twin, _ := agentOf(t, agent.Options{Name: "b"})
	require.ErrorContains(t, a.AllowTransfer(), "at least one agent")
	require.ErrorContains(t, a.AllowTransfer(b, twin), `two agents named "b"`)
	other, _ := agentOf(t, agent.Options{Name: "c"})
	require.NoError(t, other.AllowTransfer(b))
	require.ErrorContains(t, other.AllowTransfer(b), "allowed once")
}
