package contract

import "github.com/agent-runner/agent-runner/abi"

// A HookSpec is the row of a hook in the table from which the host, the SDKs and their
// generators take their lists of hooks.
type HookSpec struct {
	Name abi.Hook
	// Input and Answer are the names of types of package abi or of this package. Input is empty if the
	// hook's input is {}.
	Input, Answer string
	// Kind is once, pipeline, onion, gate, tool, first or observer. The README describes
	// the kinds.
	Kind string
	// Order is inward if the first registered entry of the outermost ring comes first, and
	// outward if it comes last. It is empty if the hooks of entries do not follow each
	// other.
	Order string
	// Fault says what the host does instead if the hook faults. It is empty if the fault
	// ends the run.
	Fault string
	// Stop and Interrupt report whether an answer can end and pause the run.
	Stop, Interrupt bool
	// Since is the ABI version that introduced the hook.
	Since int
}

// HookTable returns the table of hooks, in the order in which a run calls them.
func HookTable() []HookSpec { return append([]HookSpec{}, hookTable[:]...) }

var hookTable = [...]HookSpec{
	{Name: HookDescribe, Answer: "Description", Kind: "once", Since: 1},
	{Name: HookConfigure, Input: "ConfigureInput", Answer: "ConfigureAnswer", Kind: "once", Since: 1},
	{
		Name:      HookBeforeAgent,
		Input:     "BeforeAgentInput",
		Answer:    "BeforeAgentAnswer",
		Kind:      "pipeline",
		Order:     "inward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:      HookBeforeModelRewriteState,
		Input:     "BeforeModelRewriteStateInput",
		Answer:    "BeforeModelRewriteStateAnswer",
		Kind:      "pipeline",
		Order:     "inward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:      HookBeforeModel,
		Input:     "BeforeModelInput",
		Answer:    "BeforeModelAnswer",
		Kind:      "pipeline",
		Order:     "inward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:      HookWrapModel,
		Input:     "WrapModelInput",
		Answer:    "WrapModelAnswer",
		Kind:      "onion",
		Order:     "inward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:   HookOnChunk,
		Input:  "OnChunkInput",
		Answer: "OnChunkAnswer",
		Kind:   "pipeline",
		Order:  "outward",
		Stop:   true,
		Since:  1,
	},
	{
		Name:      HookAfterModel,
		Input:     "AfterModelInput",
		Answer:    "AfterModelAnswer",
		Kind:      "pipeline",
		Order:     "outward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:      HookAfterModelRewriteState,
		Input:     "AfterModelRewriteStateInput",
		Answer:    "AfterModelRewriteStateAnswer",
		Kind:      "pipeline",
		Order:     "outward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:      HookBeforeTool,
		Input:     "BeforeToolInput",
		Answer:    "BeforeToolAnswer",
		Kind:      "pipeline",
		Order:     "inward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:      HookWrapToolCall,
		Input:     "WrapToolCallInput",
		Answer:    "WrapToolCallAnswer",
		Kind:      "onion",
		Order:     "inward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:      HookGateTool,
		Input:     "GateToolInput",
		Answer:    "GateToolAnswer",
		Kind:      "gate",
		Order:     "inward",
		Fault:     "denied",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:      HookCallTool,
		Input:     "CallToolInput",
		Answer:    "CallToolAnswer",
		Kind:      "tool",
		Fault:     "error_result",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:      HookAfterTool,
		Input:     "AfterToolInput",
		Answer:    "AfterToolAnswer",
		Kind:      "pipeline",
		Order:     "outward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:   HookToolMessages,
		Input:  "ToolMessagesInput",
		Answer: "ToolMessagesAnswer",
		Kind:   "first",
		Order:  "inward",
		Fault:  "default_message",
		Since:  1,
	},
	{
		Name:      HookAfterTools,
		Input:     "AfterToolsInput",
		Answer:    "AfterToolsAnswer",
		Kind:      "pipeline",
		Order:     "outward",
		Stop:      true,
		Interrupt: true,
		Since:     1,
	},
	{
		Name:   HookAfterAgent,
		Input:  "AfterAgentInput",
		Answer: "AfterAgentAnswer",
		Kind:   "pipeline",
		Order:  "outward",
		Fault:  "passed_over",
		Since:  1,
	},
	{
		Name:   HookObserve,
		Input:  "ObserveInput",
		Answer: "ObserveAnswer",
		Kind:   "observer",
		Fault:  "passed_over",
		Since:  1,
	},
	{
		Name:   HookTranslateBefore,
		Input:  "TranslateInput",
		Answer: "TranslateAnswer",
		Kind:   "pipeline",
		Order:  "outward",
		Fault:  "not_translated",
		Since:  1,
	},
	{
		Name:   HookTranslateAfter,
		Input:  "TranslateInput",
		Answer: "TranslateAnswer",
		Kind:   "pipeline",
		Order:  "outward",
		Fault:  "not_translated",
		Since:  1,
	},
}

// Hooks returns all hooks of version 1, in the order in which a run calls them.
func Hooks() []abi.Hook {
	out := make([]abi.Hook, len(hookTable))
	for i := range hookTable {
		out[i] = hookTable[i].Name
	}
	return out
}

// Known reports whether h is a hook of version 1.
func Known(h abi.Hook) bool { return Spec(h).Name == h && h != "" }

// Spec returns the row of h in the table of hooks. It is zero if h is unknown.
func Spec(h abi.Hook) HookSpec {
	for i := range hookTable {
		if hookTable[i].Name == h {
			return hookTable[i]
		}
	}
	return HookSpec{}
}

// An ImportSpec is the row of a function that modules can import.
type ImportSpec struct {
	Name string
	// Params and Result have a letter for each value: i for an i32, I for an i64.
	Params, Result string
	Grant          string // the grant without which calls are denied; empty if none is needed
	Does           string // the permission, in words
	Since          int    // the ABI version that introduced the import
}

// ImportTable returns the table of imports, in the order of the README.
func ImportTable() []ImportSpec {
	return []ImportSpec{
		{Name: "read", Params: "ii", Result: "i", Does: "read its input and the replies of host calls", Since: 1},
		{Name: "write", Params: "ii", Does: "answer", Since: 1},
		{Name: "next", Params: "ii", Result: "i", Does: "run what it wraps, also several times or not at all", Since: 1},
		{Name: "next_stream", Params: "ii", Result: "i", Does: "open the stream of what it wraps", Since: 1},
		{Name: "recv", Result: "i", Does: "read the stream of what it wraps", Since: 1},
		{Name: "send", Params: "ii", Result: "i", Does: "send chunks of its own", Since: 1},
		{Name: "messages", Params: "iii", Result: "i", Does: "read the conversation, as far as it is granted", Since: 1},
		{Name: "changed", Params: "iI", Result: "i", Does: "learn where the conversation has changed", Since: 1},
		{Name: "local_get", Params: "ii", Result: "i", Does: "read run-local values", Since: 1},
		{Name: "local_set", Params: "iiiiI", Result: "i", Does: "keep run-local values", Since: 1},
		{Name: "local_delete", Params: "ii", Result: "i", Does: "delete run-local values", Since: 1},
		{Name: "local_add", Params: "iiI", Result: "i", Does: "count in run-local values", Since: 1},
		{Name: "emit", Params: "ii", Result: "i", Does: "send events of its own", Since: 1},
		{Name: "config", Result: "i", Does: "read its configuration", Since: 1},
		{Name: "log", Params: "iii", Does: "log", Since: 1},
		{Name: "model", Params: "ii", Result: "i", Grant: "model", Does: "call a model", Since: 1},
		{Name: "tool", Params: "ii", Result: "i", Grant: "tool:NAME", Does: "call tools of the agent", Since: 1},
		{Name: "http", Params: "ii", Result: "i", Grant: "http:HOST", Does: "send HTTP requests", Since: 1},
		{Name: "store_get", Params: "ii", Result: "i", Grant: "store", Does: "read durable values", Since: 1},
		{Name: "store_set", Params: "iiiiII", Result: "i", Grant: "store", Does: "keep durable values", Since: 1},
		{Name: "store_delete", Params: "ii", Result: "i", Grant: "store", Does: "delete durable values", Since: 1},
		{Name: "store_add", Params: "iiI", Result: "i", Grant: "store", Does: "count in durable values", Since: 1},
	}
}
