// Package abitable describes the ABI's hooks and imports in two tables. The host and generators
// such as internal/hookgen read them. docs/adding-a-hook.md explains how to add a hook.
//
// The package imports only the standard library, so that the generators build while generated files
// are out of date.
package abitable

// A Hook describes a hook of the ABI.
type Hook struct {
	Name string
	// Types is the name of the hook's Go types without the suffixes Input and Answer. It is empty
	// for describe.
	Types string
	// Kind is "once", "pipeline", "onion", "gate", "tool", "first" or "observer". abi/README.md
	// describes the kinds.
	Kind string
	// Order is the order in which the entries of a chain are called. With "inward", the first
	// registered entry of the outermost ring is called first; with "outward", it is called last.
	// Order is empty if the entries have no order.
	Order string
	// Rings is "each" if the hook is called ring by ring, with other hooks of the call between two
	// rings. It is "all" if the rings follow each other directly, and empty if Order is empty.
	Rings string
	// During is the phase in which the hook is called: "load", "run", "step", "model", "tool",
	// "call" (of a model or of a tool), "event" or "client".
	During string
	// Can is the set of the hook's abilities.
	Can Ability
	// Fault is the effect of a fault in the hook, such as "denied", if a fault never ends the run.
	// If Fault is empty, the entry's on_fault decides whether the run ends. A fault in describe or
	// configure rejects the module.
	Fault string
	// Since is the ABI version that introduced the hook.
	Since int
}

// An Ability is a bit set of properties of a hook: what its answer can do, and what its input
// contains.
type Ability int

// The abilities of hooks.
const (
	Stop      Ability = 1 << iota // an answer can end the run
	Interrupt                     // an answer can pause the run
	Lists                         // the input has a list of messages
	Edits                         // the answer's messages change the run's state

	ends  = Stop | Interrupt
	shows = ends | Lists
	state = shows | Edits
)

// Has reports whether h has all abilities in the set all.
func (h *Hook) Has(all Ability) bool { return h.Can&all == all }

// Input returns the name of the input's type in package abi or contract. It returns "" for
// describe, whose input is {}.
func (h *Hook) Input() string {
	if h.Types == "" {
		return ""
	}
	return h.Types + "Input"
}

// Answer returns the name of the answer's type in package abi or contract.
func (h *Hook) Answer() string {
	if h.Types == "" {
		return "Description"
	}
	return h.Types + "Answer"
}

// Values that several rows of the table share.
const (
	pipeline, onion     = "pipeline", "onion"
	inward, outward     = "inward", "outward"
	each, all           = "each", "all"
	step, model, tool   = "step", "model", "tool"
	call, client        = "call", "client"
	onFault, passedOver = "", "passed_over"
)

// hooks describes each hook, in the order in which a run calls them.
var hooks = [...]Hook{
	// name, types, kind, order, rings, during, abilities, fault, since
	{"describe", "", "once", "", "", "load", 0, "", 1},
	{"configure", "Configure", "once", "", "", "load", 0, "", 1},
	{"before_agent", "BeforeAgent", pipeline, inward, all, "run", state, onFault, 1},
	{"before_model_rewrite_state", "BeforeModelRewriteState", pipeline, inward, all, step, state, onFault, 1},
	{"before_model", "BeforeModel", pipeline, inward, each, model, shows, onFault, 1},
	{"wrap_model", "WrapModel", onion, inward, each, model, shows, onFault, 1},
	{"on_chunk", "OnChunk", pipeline, outward, each, call, Stop, onFault, 1},
	{"after_model", "AfterModel", pipeline, outward, each, model, shows, onFault, 1},
	{"after_model_rewrite_state", "AfterModelRewriteState", pipeline, outward, all, step, state, onFault, 1},
	{"before_tool", "BeforeTool", pipeline, inward, each, tool, ends, onFault, 1},
	{"wrap_tool_call", "WrapToolCall", onion, inward, each, tool, ends, onFault, 1},
	{"gate_tool", "GateTool", "gate", inward, all, tool, ends, "denied", 1},
	{"call_tool", "CallTool", "tool", "", "", tool, ends, "error_result", 1},
	{"after_tool", "AfterTool", pipeline, outward, each, tool, ends, onFault, 1},
	{"tool_messages", "ToolMessages", "first", inward, all, tool, 0, "default_message", 1},
	{"after_tools", "AfterTools", pipeline, outward, all, step, state, onFault, 1},
	{"after_agent", "AfterAgent", pipeline, outward, all, "run", Lists, passedOver, 1},
	{"observe", "Observe", "observer", "", "", "event", 0, passedOver, 1},
	{"translate_before", "Translate", pipeline, outward, all, client, 0, "not_translated", 1},
	{"translate_after", "Translate", pipeline, outward, all, client, 0, "not_translated", 1},
}

// Hooks returns all hooks, in the order in which a run calls them.
func Hooks() []Hook { return append([]Hook{}, hooks[:]...) }

// HookOf returns the hook called name, or a zero Hook if no hook has that name.
func HookOf[Name ~string](name Name) Hook {
	for i := range hooks {
		if hooks[i].Name == string(name) {
			return hooks[i]
		}
	}
	return Hook{}
}
