package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// TestDecisionsOfOperatorsAreHidden checks that a tenant sees the decisions of its own gates, and of
// an operator's gate only the answers to its questions, without the module.
func TestDecisionsOfOperatorsAreHidden(t *testing.T) {
	t.Parallel()
	h := NewRedactor([]journal.Pin{{Entry: "guard", Ring: "outer"}, {Entry: "own", Ring: "tenant"}})
	decision := func(entry string, answered bool) *abi.Event {
		return &abi.Event{
			Type: abi.EventDecision, Entry: entry, Digest: "d1",
			Decision: &abi.Decision{Decision: "deny", Tool: "t", Answered: answered},
		}
	}
	require.Equal(t, decision("own", false), h.event(decision("own", false)))
	require.Nil(t, h.event(decision("guard", false)))
	answered := decision("operator", true)
	answered.Digest = ""
	require.Equal(t, answered, h.event(decision("guard", true)))
}
