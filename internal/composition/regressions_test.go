package composition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
)

// regressions are compositions for which the host once violated the contract.
var regressions = map[string]Composition{
	"a model that failed is asked again after a pause": {
		Entries: []Entry{
			{Name: "m0", Ring: Inner, Hooks: map[abi.Hook]puppet.Script{
				"after_model": {Do: "pause"},
			}},
		},
		Replies:  []Reply{{Fails: true}},
		MaxSteps: 1,
	},
	"with the race detector: an answer without the model is changed while it is kept": {
		Entries: []Entry{
			{Name: "m0", Ring: Outer, Hooks: map[abi.Hook]puppet.Script{
				"before_agent": {Do: "answer"},
			}},
		},
		Replies:  []Reply{{Text: "a"}},
		MaxSteps: 1,
	},
	"a call of a module's own that is beyond a limit is told of again after a pause": {
		Entries: []Entry{
			{Name: "m0", Ring: Outer, Hooks: map[abi.Hook]puppet.Script{
				"before_tool": {Do: "pause", Own: "tool"},
			}},
		},
		Replies:  []Reply{{Calls: []Call{{"plain", "{}"}}}},
		MaxSteps: 1,
		Limits:   Limits{ToolCalls: 1, OnTool: "answer"},
	},
	"a process that dies loses a transfer": {
		Entries: []Entry{
			{Name: "m0", Ring: Tenant, Hooks: map[abi.Hook]puppet.Script{
				"after_tools": {},
				"wrap_model":  {},
			}},
		},
		Replies:  []Reply{{Calls: []Call{{"transfer_to_agent", `{"agent":"peer"}`}}}},
		MaxSteps: 1,
		Peer:     &Composition{Replies: []Reply{{Text: "a"}}},
	},
	"a process that dies in a transfer ends the step twice": {
		Entries: []Entry{
			{Name: "m0", Ring: Tenant, Hooks: map[abi.Hook]puppet.Script{
				"after_agent": {},
			}},
		},
		Replies:  []Reply{{Calls: []Call{{"transfer_to_agent", `{"agent":"peer"}`}}}},
		MaxSteps: 2,
		Peer: &Composition{
			Entries: []Entry{
				{Name: "p1", Ring: Tenant, Hooks: map[abi.Hook]puppet.Script{
					"before_model_rewrite_state": {},
				}},
			},
			Replies: []Reply{{Text: "a"}},
		},
	},
	"the second run of a call has the ids of the first": {
		Entries: []Entry{
			{Name: "m0", Ring: Outer, Hooks: map[abi.Hook]puppet.Script{
				"wrap_tool_call": {Next: []string{"", ""}},
			}},
		},
		Replies:  []Reply{{Calls: []Call{{"kid", "{}"}}}},
		MaxSteps: 1,
		Kid: &Composition{
			Entries: []Entry{
				{Name: "k0", Ring: Outer, Hooks: map[abi.Hook]puppet.Script{
					"before_model": {Do: "pause"},
				}},
			},
			Replies:  []Reply{{Text: "a"}},
			MaxSteps: 1,
		},
	},
}

func TestRegressions(t *testing.T) {
	t.Parallel()
	for name, c := range regressions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, check := range Checks() {
				require.Empty(t, check.Run(t.Context(), &c), check.Name)
			}
		})
	}
}
