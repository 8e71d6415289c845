package persist_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

// An asker is a model that calls a sub-agent and answers with the sub-agent's answer.
type asker struct {
	w    *world
	tool string
}

func (a *asker) Generate(_ context.Context, req *model.Request, _ func(abi.Chunk) error) (*abi.Response, error) {
	a.w.count("asker")
	last := req.Messages[len(req.Messages)-1]
	res := &abi.Response{
		Message:      abi.Assistant(last.Content.String()),
		FinishReason: abi.FinishStop,
		Usage:        &abi.Usage{TotalTokens: 1},
	}
	if last.Role == abi.RoleUser {
		res.Message, res.FinishReason = abi.Assistant(""), abi.FinishToolCalls
		res.Message.ToolCalls = []abi.ToolCall{abi.NewToolCall("sub", a.tool, `{"request":"hi"}`)}
	}
	return res, nil
}

// TestDeathAtEveryWriteOfAChild checks that a run with a sub-agent, one or two levels deep,
// completes if its process ends at any write to the journal.
func TestDeathAtEveryWriteOfAChild(t *testing.T) {
	t.Parallel()
	for depth := 1; depth <= 2; depth++ {
		w, c, writes := live(t, 0, false, depth)
		require.Greater(t, writes, int64(8))
		requireChild(t, w, c)
		require.Equal(t, map[string]int{"pay": 1, "look": 1, "asked": 1, "asker": 2 * depth}, w.calls)
		require.Equal(t, 2, w.models)
		for at := int64(1); at <= writes+2; at += everyWrite() {
			for _, after := range []bool{false, true} {
				t.Run(
					fmt.Sprint(depth, " deep, ", at, map[bool]string{true: " after", false: " before"}[after]),
					func(t *testing.T) {
						t.Parallel()
						w, c, _ := live(t, at, after, depth)
						requireChild(t, w, c)
						require.LessOrEqual(t, w.models+w.calls["asker"], 2+2*depth+1, "an answered model call is not repeated")
					},
				)
			}
		}
	}
}

// everyWrite returns the distance between the writes at which a process ends in a test: 1, or 5 with
// -short.
func everyWrite() int64 {
	if testing.Short() {
		return 5
	}
	return 1
}

// requireChild requires the events and side effects of a complete run with a sub-agent's run,
// whether or not processes crashed.
func requireChild(t *testing.T, w *world, c *taker) {
	t.Helper()
	types := c.types()
	require.Equal(t, 1, types[abi.EventRunStarted])
	require.Equal(t, 1, types[abi.EventRunFinished])
	require.Equal(t, 1, types[abi.EventToolCall])
	require.Equal(t, 1, types[abi.EventToolResult])
	require.LessOrEqual(t, w.calls["pay"], 1, "it is not idempotent")
	require.LessOrEqual(t, w.calls["asked"], 1, "it is not idempotent")
	require.Positive(t, w.calls["look"])
	last := c.all[len(c.all)-1]
	require.Equal(t, abi.RunStop, last.FinishReason)
	require.Equal(t, eachOnce, last.Message.Content.String())
	inner := map[abi.EventType]int{}
	seq := int64(0)
	for _, e := range c.all {
		if e.Type != abi.EventChild || e.Event.Run != c.all[0].Run+".1.sub"+map[bool]string{true: ".1.sub"}[w.depth == 2] {
			continue
		}
		inner[e.Event.Type]++
		require.Greater(t, e.Event.Seq, seq, "its events come in their order, and none twice")
		seq = e.Event.Seq
		w.requireSeen(t, e.Event)
		if e.Event.Type == abi.EventRunFinished {
			requireStats(t, e.Event)
		}
		if e.Event.Type == abi.EventToolResult && w.calls[e.Event.Call.Name] == 0 {
			require.JSONEq(t, `{"outcome":"unknown"}`, string(e.Event.Result.Extra))
		}
	}
	for typ, n := range map[abi.EventType]int{
		abi.EventRunStarted:   1,
		abi.EventToolCall:     3,
		abi.EventToolResult:   3,
		abi.EventMessage:      2,
		abi.EventStepStarted:  2,
		abi.EventStepFinished: 2,
		abi.EventRunFinished:  1,
	} {
		require.Equal(t, n, inner[typ], "%s of the run inside", typ)
	}
}
