package chain

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/chain/local"
)

// An unopened is a middleware that fails the test if it is opened for a run.
type unopened struct {
	*inproc.Middleware
	t *testing.T
}

func (m unopened) Open(context.Context, string, string) (hook.Session, error) {
	m.t.Error("opened")
	return nil, nil
}

// TestEntryOfOtherRuns checks that an entry whose conditions on the run do not hold is not opened
// for the run, and that the run has no statistics of the entry.
func TestEntryOfOtherRuns(t *testing.T) {
	t.Parallel()
	gate := &inproc.Middleware{
		GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
		},
	}
	c, err := New(
		hook.Entry{Name: "other", Middleware: unopened{gate, t}, When: hook.When{Agent: []string{"b*"}}},
		hook.Entry{Name: "this", Middleware: gate, When: hook.When{Agent: []string{"a", "b"}}},
		hook.Entry{
			Name:       "paid",
			Middleware: unopened{gate, t},
			When:       hook.When{Metadata: map[string][]string{"tier": {"gold"}}},
		},
	)
	require.NoError(t, err)
	r, err := c.Open(t.Context(), abi.Run{ID: "run-1", Agent: "a"}, &harness{}, local.New())
	require.NoError(t, err)
	defer r.Close()
	require.Len(t, r.Inward("gate_tool"), 1)
	require.Len(t, r.Stats(), 1)
	require.Equal(t, "this", r.Stats()[0].Entry)
}

// TestInvalidWhen checks that a chain rejects conditions that would match nothing or have no effect.
func TestInvalidWhen(t *testing.T) {
	t.Parallel()
	gate := &inproc.Middleware{
		BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			return nil, nil
		},
		GateTool: func(context.Context, *hook.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) { return nil, nil },
	}
	for want, when := range map[string]hook.When{
		"agent is empty and would match nothing":                      {Agent: []string{}},
		"metadata.tier is empty and would match nothing":              {Metadata: map[string][]string{"tier": nil}},
		"tool: want names of 1 to 128 bytes":                          {Tool: []string{""}},
		`tool: "a*b" has a * that is not its last character`:          {Tool: []string{"t", "a*b"}},
		"agent has 65 names; at most 64 are allowed":                  {Agent: strings.Split(strings.Repeat("a,", 64)+"a", ",")},
		"model has no effect: none of the entry's hooks is about a m": {Model: []string{"m"}},
	} {
		_, err := New(hook.Entry{Name: "e", Middleware: gate, When: when})
		require.ErrorContains(t, err, `middleware "e": when: `+want)
	}
	_, err := New(hook.Entry{
		Name: "e", Middleware: gate, Hooks: []abi.Hook{"before_agent"}, When: hook.When{Tool: []string{"t"}},
	})
	require.ErrorContains(t, err, "tool has no effect")
}
