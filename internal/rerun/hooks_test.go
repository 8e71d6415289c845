package rerun

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// TestHooks checks that answers of hooks are compared by decisions and texts, in any order.
func TestHooks(t *testing.T) {
	t.Parallel()
	op := &tracing.Operation{Kind: tracing.OperationHook, Entry: "guard", Hook: abi.HookGateTool}
	compare := func(before, after []any) *HookCost {
		own := NewPass(&Run{History: &runlog.History{}}, nil)
		other := NewPass(&Run{History: &runlog.History{}}, own)
		for _, a := range before {
			own.count(op, &tracing.Outcome{Answer: a})
		}
		for _, a := range after {
			other.count(op, &tracing.Outcome{Answer: a})
		}
		at := HookCall{Entry: "guard", Hook: abi.HookGateTool}
		was, is := own.Hooks()[at], other.Hooks()[at]
		return &HookCost{Decisions: is.Decisions, Calls: int(was.ChangedAnswers(is)), Texts: was.ChangedTexts(is)}
	}
	gate := func(decision, why string) any { return &abi.GateToolAnswer{Decision: decision, Message: why} }
	chunks := func(texts ...string) any {
		a := &abi.OnChunkAnswer{}
		for _, text := range texts {
			a.Chunks = append(a.Chunks, abi.Chunk{Kind: abi.ChunkText, Text: text})
		}
		return a
	}
	insert := func(texts ...string) any {
		a := &abi.BeforeModelAnswer{}
		for _, text := range texts {
			a.Request.Messages.Splice = append(a.Request.Messages.Splice, abi.Splice{Insert: []abi.Message{abi.User(text)}})
		}
		return a
	}
	params := &abi.BeforeModelAnswer{Request: abi.RequestPatch{Params: abi.Params{"top_p": abi.JSON("1")}}}
	stop := &abi.BeforeModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "enough"}}}
	respond := &abi.BeforeModelAnswer{
		Response: &abi.Response{Message: abi.Message{Role: "assistant", Content: abi.Text("hi")}},
	}
	for name, c := range map[string]struct {
		before, after  []any
		decisions      map[Decision]int64
		answers, texts int64
	}{
		"same in another order": {
			[]any{gate("allow", ""), gate("deny", "no")}, []any{gate("deny", "no"), gate("allow", "")},
			map[Decision]int64{"allow": 1, "deny": 1}, 0, 0,
		},
		"decision":       {[]any{gate("allow", "")}, []any{gate("deny", "no")}, map[Decision]int64{"deny": 1}, 1, 1},
		"one text":       {[]any{insert("a", "b")}, []any{insert("a", "c")}, nil, 1, 1},
		"more texts":     {[]any{insert("a")}, []any{insert("a", "b", "b")}, nil, 1, 2},
		"joined chunks":  {[]any{chunks("a", "b")}, []any{chunks("ab")}, nil, 1, 0},
		"dropped chunks": {[]any{chunks("a")}, []any{&abi.OnChunkAnswer{Chunks: []abi.Chunk{}}}, nil, 1, 1},
		"parameters":     {[]any{insert()}, []any{params}, nil, 1, 0},
		"stop":           {[]any{insert()}, []any{stop}, map[Decision]int64{"stop": 1}, 1, 0},
		"respond":        {[]any{insert()}, []any{respond}, map[Decision]int64{"respond": 1}, 1, 1},
		"more calls":     {[]any{insert("a")}, []any{insert("a"), insert("a")}, nil, 1, 1},
	} {
		got := compare(c.before, c.after)
		require.Equal(t, c.decisions, got.Decisions, name)
		require.Equal(t, []int64{c.answers, c.texts}, []int64{int64(got.Calls), got.Texts}, name)
	}
}

// TestHooksAreBounded checks that a pass holds a limited number of hashes.
func TestHooksAreBounded(t *testing.T) {
	t.Parallel()
	p := NewPass(&Run{History: &runlog.History{}}, nil)
	h := hashes{}
	for sum := range uint64(2 * maxHashes) {
		p.hash(h, sum+1)
	}
	require.Len(t, h, maxHashes+1)
	require.Equal(t, int64(maxHashes), h[0])
}
