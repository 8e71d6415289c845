//go:build tinygo

package middleware

import (
	"reflect"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A method describes a Go method that implements a hook. TinyGo cannot look up methods by name, so
// the code for each hook is referenced here. A hook that the program does not use costs
// only its code, because the compiler knows whether a type has it.
type method struct {
	hook abi.Hook
	has  func(v any) bool
	by   func() server
}

var hookMethods = []method{
	{
		contract.HookConfigure,
		func(v any) bool { _, ok := v.(ConfigureHook); return ok },
		func() server { return observing{} },
	},
	{
		contract.HookBeforeAgent,
		func(v any) bool { _, ok := v.(BeforeAgentHook); return ok },
		func() server { return (*AgentStart)(nil) },
	},
	{
		contract.HookBeforeModelRewriteState,
		func(v any) bool { _, ok := v.(BeforeModelRewriteStateHook); return ok },
		func() server { return (*State)(nil) },
	},
	{
		contract.HookBeforeModel,
		func(v any) bool { _, ok := v.(BeforeModelHook); return ok },
		func() server { return (*ModelStart)(nil) },
	},
	{
		contract.HookWrapModel,
		func(v any) bool { _, ok := v.(WrapModelHook); return ok },
		func() server { return NextModel(nil) },
	},
	{
		contract.HookOnChunk,
		func(v any) bool { _, ok := v.(OnChunkHook); return ok },
		func() server { return (*Chunks)(nil) },
	},
	{
		contract.HookAfterModel,
		func(v any) bool { _, ok := v.(AfterModelHook); return ok },
		func() server { return (*ModelEnd)(nil) },
	},
	{
		contract.HookAfterModelRewriteState,
		func(v any) bool { _, ok := v.(AfterModelRewriteStateHook); return ok },
		func() server { return (*State)(nil) },
	},
	{
		contract.HookBeforeTool,
		func(v any) bool { _, ok := v.(BeforeToolHook); return ok },
		func() server { return (*ToolStart)(nil) },
	},
	{
		contract.HookWrapToolCall,
		func(v any) bool { _, ok := v.(WrapToolCallHook); return ok },
		func() server { return NextTool(nil) },
	},
	{
		contract.HookGateTool,
		func(v any) bool { _, ok := v.(GateToolHook); return ok },
		func() server { return Decision{} },
	},
	{
		contract.HookCallTool,
		func(v any) bool { _, ok := v.(CallToolHook); return ok },
		func() server { return (*Call)(nil) },
	},
	{
		contract.HookAfterTool,
		func(v any) bool { _, ok := v.(AfterToolHook); return ok },
		func() server { return (*ToolEnd)(nil) },
	},
	{
		contract.HookToolMessages,
		func(v any) bool { _, ok := v.(ToolMessagesHook); return ok },
		func() server { return (*ToolRecord)(nil) },
	},
	{
		contract.HookAfterTools,
		func(v any) bool { _, ok := v.(AfterToolsHook); return ok },
		func() server { return (*ToolsEnd)(nil) },
	},
	{
		contract.HookAfterAgent,
		func(v any) bool { _, ok := v.(AfterAgentHook); return ok },
		func() server { return (*AgentEnd)(nil) },
	},
	{contract.HookObserve, func(v any) bool { _, ok := v.(ObserveHook); return ok }, func() server { return observing{} }},
	{
		contract.HookTranslateBefore,
		func(v any) bool { _, ok := v.(TranslateBeforeHook); return ok },
		func() server { return (*Translation)(nil) },
	},
	{
		contract.HookTranslateAfter,
		func(v any) bool { _, ok := v.(TranslateAfterHook); return ok },
		func() server { return (*Translation)(nil) },
	},
}

// server returns the value that serves the hook.
func (m *method) server(any) server { return m.by() }

// check panics if v has no hooks. A method with the name of a hook but another type is
// detected only in programs built by Go, such as tests that call Register.
func check(v any) {
	if v == nil {
		panic("middleware: nil is no middleware")
	}
	for _, m := range hookMethods {
		if m.hook != contract.HookConfigure && m.has(v) {
			return
		}
	}
	panic(
		"middleware: " + reflect.TypeOf(v).
			String() +
			" has no hooks: it needs a method of at least one of the …Hook interfaces; " +
			"where they have a pointer receiver, register a pointer",
	)
}
