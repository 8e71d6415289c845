package middleware

import (
	"fmt"
	"reflect"

	"github.com/agent-runner/agent-runner/abi"
)

// A method is what makes a hook.
type method struct {
	hook abi.Hook
	has  func(v any) bool
	want reflect.Method // of the hook's interface
	find finder
}

// A finder looks for the method in another type.
type finder func(t reflect.Type) (reflect.Method, bool)

// hookMethods are the methods that make hooks, in the order in which a run
// meets them. Their names are constants, in a line each: so the linker sees
// which methods are asked for, and drops whatever else a module does not call,
// imports among it.
var hookMethods = []method{
	methodOf[ConfigureHook](abi.HookConfigure, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("Configure") }),
	methodOf[BeforeAgentHook](abi.HookBeforeAgent, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("BeforeAgent") }),
	methodOf[BeforeModelRewriteStateHook](abi.HookBeforeModelRewriteState, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("BeforeModelRewriteState") }),
	methodOf[BeforeModelHook](abi.HookBeforeModel, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("BeforeModel") }),
	methodOf[WrapModelHook](abi.HookWrapModel, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("WrapModel") }),
	methodOf[OnChunkHook](abi.HookOnChunk, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("OnChunk") }),
	methodOf[AfterModelHook](abi.HookAfterModel, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("AfterModel") }),
	methodOf[AfterModelRewriteStateHook](abi.HookAfterModelRewriteState, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("AfterModelRewriteState") }),
	methodOf[BeforeToolHook](abi.HookBeforeTool, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("BeforeTool") }),
	methodOf[WrapToolCallHook](abi.HookWrapToolCall, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("WrapToolCall") }),
	methodOf[GateToolHook](abi.HookGateTool, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("GateTool") }),
	methodOf[CallToolHook](abi.HookCallTool, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("CallTool") }),
	methodOf[AfterToolHook](abi.HookAfterTool, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("AfterTool") }),
	methodOf[ToolMessagesHook](abi.HookToolMessages, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("ToolMessages") }),
	methodOf[AfterToolsHook](abi.HookAfterTools, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("AfterTools") }),
	methodOf[AfterAgentHook](abi.HookAfterAgent, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("AfterAgent") }),
	methodOf[ObserveHook](abi.HookObserve, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("Observe") }),
	methodOf[TranslateBeforeHook](abi.HookTranslateBefore, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("TranslateBefore") }),
	methodOf[TranslateAfterHook](abi.HookTranslateAfter, func(t reflect.Type) (reflect.Method, bool) { return t.MethodByName("TranslateAfter") }),
}

func methodOf[H any](hook abi.Hook, find finder) method {
	want, _ := find(reflect.TypeFor[H]())
	return method{hook: hook, find: find, want: want, has: func(v any) bool { _, ok := v.(H); return ok }}
}

// check panics if v has methods that are named like hooks and are none, or no
// hooks at all: not being called, without a word, is the worst trap.
func check(v any) {
	t := reflect.TypeOf(v)
	if t == nil {
		panic("middleware: nil is no middleware")
	}
	hooks, behindPointer := 0, 0
	for _, m := range hookMethods {
		if m.has(v) {
			if m.hook != abi.HookConfigure {
				hooks++
			}
			continue
		}
		if got, ok := m.find(t); ok {
			panic(fmt.Sprintf("middleware: %s.%s is named like a hook and has another type: want %s, got %s",
				t, got.Name, m.want.Type, withoutReceiver(got.Type)))
		}
		if _, ok := m.find(reflect.PointerTo(t)); ok {
			behindPointer++
		}
	}
	if behindPointer > 0 {
		panic(fmt.Sprintf("middleware: the hooks of %s have a pointer receiver: register &%s{…}", t, t))
	}
	if hooks == 0 {
		panic(fmt.Sprintf("middleware: %s has no hooks: it needs a method of at least one of the …Hook interfaces", t))
	}
}

func withoutReceiver(t reflect.Type) reflect.Type {
	var in, out []reflect.Type
	for i := 1; i < t.NumIn(); i++ {
		in = append(in, t.In(i))
	}
	for i := range t.NumOut() {
		out = append(out, t.Out(i))
	}
	return reflect.FuncOf(in, out, t.IsVariadic())
}
