package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// TestDecisionsOfOperatorsAreHidden checks that a tenant sees all decisions of its own gates. Of an
// operator's gate, it must see only the answers to questions, without the name of the module.
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
