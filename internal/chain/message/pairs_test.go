package message_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// pairing answers calls with "none". It removes orphans or, if keep is set, keeps them as messages
// of the user.
func pairing(keep bool) *message.Pairing {
	return &message.Pairing{
		Answer: func(c *abi.ToolCall, _ *abi.Message) abi.Message {
			return abi.ToolMessage(c.ID, c.Function.Name, abi.Text("none"))
		},
		Moved: func(*abi.Message) {},
		Orphan: func(m *abi.Message) *abi.Message {
			if !keep {
				return nil
			}
			kept := abi.User(m.Content.String())
			return &kept
		},
	}
}

// random returns up to 12 messages. There are few different IDs, so that results often have a call.
func random(g *rand.Rand) []abi.Message {
	id := func() string { return strconv.Itoa(g.IntN(3)) }
	var out []abi.Message
	for i := range g.IntN(12) {
		switch g.IntN(4) {
		case 0:
			out = append(out, abi.User("u"))
		case 1:
			m := abi.Assistant("")
			for range g.IntN(3) {
				m.ToolCalls = append(m.ToolCalls, abi.NewToolCall(id(), "t", "{}"))
			}
			out = append(out, m)
		default:
			out = append(out, abi.ToolMessage(id(), "t", abi.Text("r"+strconv.Itoa(i))))
		}
	}
	return out
}

// requirePaired requires the rule of model APIs: each message is directly followed by the results
// of its calls, and there are no other results.
func requirePaired(t *testing.T, l *message.List) {
	t.Helper()
	for i := 0; i < l.Len(); {
		var calls, results []string
		for _, c := range l.At(i).ToolCalls {
			calls = append(calls, c.ID)
		}
		require.NotEqual(t, abi.RoleTool, l.At(i).Role)
		for i++; i < l.Len() && l.At(i).Role == abi.RoleTool; i++ {
			results = append(results, l.At(i).ToolCallID)
		}
		require.ElementsMatch(t, calls, results)
	}
}

// TestPair checks Pair with random conversations. The result must be a list that model APIs accept.
// Pair must change nothing else, lose no kept result, and need only the messages that changed since
// the last call.
func TestPair(t *testing.T) {
	t.Parallel()
	g := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		keep := g.IntN(2) == 0
		before := message.NewList(message.NewRevisions(), random(g))
		after := before.Pair(0, pairing(keep))
		requirePaired(t, after)
		require.Same(t, after, after.Pair(0, pairing(keep)), "a second time changes nothing")
		texts := map[string]int{}
		for _, m := range after.All() {
			texts[m.Content.String()]++
		}
		for _, m := range before.All() {
			if keep && m.Role == abi.RoleTool {
				require.Equal(t, 1, texts[m.Content.String()], "a result is kept once")
			}
		}

		// Repairing an edited list from its first change must have the same result as repairing it
		// from the start.
		at := g.IntN(after.Len() + 1)
		patch := abi.Splice{At: at, Remove: g.IntN(after.Len() - at + 1), Insert: random(g)}
		by := &message.Editor{Entry: "m", NewID: func() string { return "" }}
		edited, err := message.Edit(after, &abi.ListPatch{Splice: []abi.Splice{patch}}, by)
		require.NoError(t, err)
		part := edited.Pair(edited.Changed(after.Revision()), pairing(keep))
		requirePaired(t, part)
		require.Equal(t, edited.Pair(0, pairing(keep)).All(), part.All())
	}
}

func TestCheckResults(t *testing.T) {
	t.Parallel()
	result := func(id string) abi.Message { return abi.ToolMessage(id, "t", abi.Text("r")) }
	calls := abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{
		abi.NewToolCall("1", "t", "{}"), abi.NewToolCall("2", "t", "{}"),
	}}
	user := abi.User("u")
	history := []abi.Message{result("0"), user, calls, result("1"), result("2")}
	for name, c := range map[string]struct {
		splice abi.Splice
		want   string
	}{
		"nothing":                     {abi.Splice{At: 5}, ""},
		"messages between results":    {abi.Splice{At: 4, Insert: []abi.Message{user}}, ""},
		"results in another order":    {abi.Splice{At: 3, Remove: 2, Insert: []abi.Message{result("2"), result("1")}}, ""},
		"the round is removed":        {abi.Splice{At: 2, Remove: 3}, ""},
		"an orphan of before stays":   {abi.Splice{At: 0, Remove: 5, Insert: history}, ""},
		"a result is removed":         {abi.Splice{At: 3, Remove: 1}, `the call "1" has no result`},
		"a result is added":           {abi.Splice{At: 5, Insert: []abi.Message{result("2")}}, `the call "2" has more than one result`},
		"a result of no call":         {abi.Splice{At: 5, Insert: []abi.Message{result("3")}}, `the tool_call_id "3"`},
		"a result of an earlier call": {abi.Splice{At: 5, Insert: []abi.Message{abi.Assistant("x"), result("2")}}, `the tool_call_id "2"`},
		"the calls are removed":       {abi.Splice{At: 2, Remove: 1}, `the tool_call_id "1"`},
		"an open call is added":       {abi.Splice{At: 5, Insert: []abi.Message{calls}}, `the call "1" has no result`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := message.NewList(message.NewRevisions(), history)
			patch := abi.ListPatch{Splice: []abi.Splice{c.splice}}
			after, err := message.Edit(before, &patch, &message.Editor{Entry: "m", NewID: func() string { return "" }})
			require.NoError(t, err)
			if c.want == "" {
				require.NoError(t, message.CheckResults(before, after))
			} else {
				require.ErrorContains(t, message.CheckResults(before, after), c.want)
			}
		})
	}
}
