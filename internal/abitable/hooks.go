// Package abitable is the table of the ABI's hooks and imports. internal/hookgen, the other
// generators and the host take their lists of names from it. docs/adding-a-hook.md adds a row.
//
// It imports nothing, so that the generators build while the files that they write are out of date.
package abitable

// A Hook is the row of a hook.
type Hook struct {
	Name string
	// Types is the prefix of the Go names of the hook's types, which end in Input and Answer; see
	// Input and Answer. It is empty for describe.
	Types string
	// Kind is "once", "pipeline", "onion", "gate", "tool", "first" or "observer". The README of
	// package abi describes the kinds.
	Kind string
	// Order is "inward" if the first registered entry of the outermost ring comes first, and
	// "outward" if it comes last. It is empty if the order of the entries has no meaning.
	Order string
	// Rings is "each" if the hook is called ring by ring, with the other hooks of a call in
	// between. It is "all" if the rings follow each other directly, and empty if Order is.
	Rings string
	// During is the phase in which the hook is called: "load", "run", "step", "model", "tool",
	// "call" (of a model or of a tool), "event" or "client".
	During string
	// Can has the abilities of an answer, and reports whether an input has a list of messages.
	Can Ability
	// Fault is the effect of a fault of the hook, such as "denied", if the fault never ends the
	// run. If Fault is empty, the entry's on_fault decides whether the run ends, and a fault of a
	// hook that builds an image rejects the module.
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

// Has reports whether h has all of the abilities.
func (h *Hook) Has(all Ability) bool { return h.Can&all == all }

// Input returns the name of the type of the input in package abi or contract. It is empty for
// describe, whose input is {}.
func (h *Hook) Input() string {
	if h.Types == "" {
		return ""
	}
	return h.Types + "Input"
}

// Answer returns the name of the type of the answer in package abi or contract.
func (h *Hook) Answer() string {
	if h.Types == "" {
		return "Description"
	}
	return h.Types + "Answer"
}

// The words that columns of the table have in several rows.
const (
	pipeline, onion     = "pipeline", "onion"
	inward, outward     = "inward", "outward"
	each, all           = "each", "all"
	step, model, tool   = "step", "model", "tool"
	call, client        = "call", "client"
	onFault, passedOver = "", "passed_over"
)

// hooks has a row for each hook, in the order in which a run calls them.
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

// Hooks returns the rows of all hooks, in the order in which a run calls them.
func Hooks() []Hook { return append([]Hook{}, hooks[:]...) }

// HookOf returns the row of a hook. It is zero if the name is unknown.
func HookOf[Name ~string](name Name) Hook {
	for i := range hooks {
		if hooks[i].Name == string(name) {
			return hooks[i]
		}
	}
	return Hook{}
}
