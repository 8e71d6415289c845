package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestTurnOf checks which messages of a client's conversation are new, and at which position of the
// thread the run begins.
func TestTurnOf(t *testing.T) {
	t.Parallel()
	stored := []store.ThreadMessage{
		{Position: 0, ID: "u1", Run: "run_a"},
		{Position: 1, ID: "x1", Run: "run_a"},
		{Position: 2, ID: "x2", Run: "run_a"}, // a tool's result
		{Position: 3, ID: "x3", Run: "run_a"},
		{Position: 4, ID: "u2", Run: "run_b"},
		{Position: 5, ID: "x4", Run: "run_b"},
	}
	m := func(id string) abi.Message {
		role := map[byte]string{'u': abi.RoleUser, 'r': abi.RoleAssistant, 't': abi.RoleTool}[id[0]]
		return abi.Message{ID: id, Role: role}
	}
	for name, c := range map[string]struct {
		conversation []string
		base, next   int // a base of 6 rewinds nothing
	}{
		"all and a new one":           {[]string{"u1", "r_run_a_1", "t1", "r_run_a_2", "u2", "r_run_b_1", "u3"}, 6, 6},
		"only the new one":            {[]string{"u3"}, 6, 0},
		"the last ones":               {[]string{"u2", "r_run_b_1", "u3"}, 6, 2},
		"another second message":      {[]string{"u1", "r_run_a_1", "t1", "r_run_a_2", "u3"}, 4, 4},
		"the second one again":        {[]string{"u1", "r_run_a_1", "t1", "r_run_a_2", "u2"}, 4, 4},
		"with its answer":             {[]string{"u1", "r_run_a_1", "t1", "r_run_a_2", "u2", "r_run_b_1"}, 4, 4},
		"the first one again":         {[]string{"u1"}, 0, 0},
		"an answer that is not there": {[]string{"u1", "r_run_a_1", "u2", "r_run_b_1", "u3", "r_run_z_1", "u4"}, 6, 4},
		"a forged answer":             {[]string{"r_run_z_1", "u3"}, 6, 0},
		"known answers only":          {[]string{"r_run_b_1"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var conversation []abi.Message
			for _, id := range c.conversation {
				conversation = append(conversation, m(id))
			}
			want := &runs.Turn{Thread: "h"}
			if c.base < len(stored) {
				want.Rewinds, want.Messages, want.Version = true, c.base, 7
			}
			turn, messages := turnOf(&store.Thread{ID: "h", Version: 7}, stored, conversation)
			require.Equal(t, want, turn)
			require.Equal(t, conversation[c.next:], messages)
		})
	}
}

// FuzzTurnOf checks that turnOf finds a place in a thread for any conversation.
func FuzzTurnOf(f *testing.F) {
	f.Add("u1", "r_run_a_1", "u2", 2)
	f.Fuzz(func(t *testing.T, a, b, c string, n int) {
		stored := []store.ThreadMessage{{ID: "u1", Run: "run_a"}, {Position: 1, ID: "x", Run: "run_a"}}[:max(0, n%3)]
		conversation := []abi.Message{
			{ID: a, Role: abi.RoleUser},
			{ID: b, Role: abi.RoleTool},
			{ID: c, Role: abi.RoleAssistant},
		}
		turn, messages := turnOf(&store.Thread{ID: "h"}, stored, conversation)
		require.NotEmpty(t, messages)
		require.GreaterOrEqual(t, turn.Messages, 0)
		require.LessOrEqual(t, turn.Messages, len(stored))
	})
}
