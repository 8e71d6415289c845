//go:build wasip1

// Command wasm-glutton is a middleware that makes its host hold as much as it can. Its
// configuration lists, for each hook, host calls to make and the size of the answer. It
// uses the imports of the ABI directly: no SDK limits what it asks for.
package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"unsafe"
)

func main() {}

//go:wasmimport agent_middleware_v1 read
func hostRead(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 write
func hostWrite(ptr unsafe.Pointer, n int32)

//go:wasmimport agent_middleware_v1 config
func hostConfig() int32

//go:wasmimport agent_middleware_v1 emit
func hostEmit(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 log
func hostLog(level int32, ptr unsafe.Pointer, n int32)

//go:wasmimport agent_middleware_v1 local_set
func hostLocalSet(key unsafe.Pointer, n int32, value unsafe.Pointer, m int32, version int64) int32

//go:wasmimport agent_middleware_v1 local_add
func hostLocalAdd(key unsafe.Pointer, n int32, delta int64) int32

//go:wasmimport agent_middleware_v1 store_set
func hostStoreSet(key unsafe.Pointer, n int32, value unsafe.Pointer, m int32, version, ttl int64) int32

//go:wasmimport agent_middleware_v1 messages
func hostMessages(list, from, to int32) int32

//go:wasmimport agent_middleware_v1 model
func hostModel(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 tool
func hostTool(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 send
func hostSend(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 next_stream
func hostNextStream(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 recv
func hostRecv() int32

// An action is a host call that a hook makes repeatedly.
type action struct {
	Do    string `json:"do"`
	Bytes int    `json:"bytes"`
	Times int    `json:"times"`
}

var config struct {
	Loop   bool                `json:"loop"`   // answers for the model with calls of its own tool
	Calls  int                 `json:"calls"`  // in each of these answers
	Ask    bool                `json:"ask"`    // the gate asks
	Answer map[string]int      `json:"answer"` // bytes of text in the answer of a hook
	Hooks  map[string][]action `json:"hooks"`
}

var count int

func at(b []byte) (unsafe.Pointer, int32) { return unsafe.Pointer(unsafe.SliceData(b)), int32(len(b)) }

func pending(n int32) []byte {
	b := make([]byte, max(n, 0))
	if n > 0 {
		ptr, size := at(b)
		b = b[:hostRead(ptr, size)]
	}
	return b
}

func filler(n int) string { return strings.Repeat("gluttony ", n/9+1)[:n] }

func answer(text string) int32 {
	hostWrite(at([]byte(text)))
	return 0
}

//go:wasmexport configure
func configure(int32) int32 {
	if err := json.Unmarshal(pending(hostConfig()), &config); err != nil {
		return answerError(err)
	}
	return 0
}

func answerError(err error) int32 {
	hostWrite(at([]byte(`{"code":"invalid","message":` + strconv.Quote(err.Error()) + `}`)))
	return 1
}

// act makes the host calls of a hook. It ignores errors, which the limits of the host cause.
func act(hook string) {
	for _, a := range config.Hooks[hook] {
		text := filler(a.Bytes)
		for range a.Times {
			count++
			do(a.Do, strconv.Itoa(count%4000), text)
		}
	}
}

func do(what, number, text string) {
	key, n := at([]byte("k" + number))
	value, m := at([]byte(`"` + text + `"`))
	switch what {
	case "emit":
		hostEmit(at([]byte(`{"name":"more","data":"` + text + `"}`)))
	case "log":
		ptr, n := at([]byte(text))
		hostLog(1, ptr, n)
	case "local_set":
		hostLocalSet(key, n, value, m, -1)
	case "local_add":
		hostLocalAdd(key, n, 1)
	case "store_set":
		hostStoreSet(key, n, value, m, -1, 0)
	case "messages":
		pending(hostMessages(0, 0, 1<<30))
	case "model":
		hostModel(at([]byte(`{"messages":[{"role":"user","content":"` + text + `"}]}`)))
	case "tool":
		hostTool(at([]byte(`{"name":"more","arguments":"{\"text\":\"` + text + `\"}"}`)))
	case "send":
		hostSend(at([]byte(`{"chunks":[{"kind":"text","text":"` + text + `"}]}`)))
	case "spin":
		for i := range 10_000 * len(text) {
			count += i & 1
		}
	}
}

func message(role, text string) string { return `{"role":"` + role + `","content":"` + text + `"}` }

// patch makes the host calls of a state hook. It answers with a patch that inserts a message, or
// not at all if the configuration has no size for the answer.
func patch(hook string) int32 {
	act(hook)
	n := config.Answer[hook]
	if n == 0 {
		return 0
	}
	return answer(`{"messages":{"splice":[{"at":0,"insert":[` + message("user", filler(n)) + `]}]}}`)
}

//go:wasmexport before_agent
func beforeAgent(int32) int32 {
	act("before_agent")
	out := `{`
	if n := config.Answer["before_agent"]; n > 0 {
		out += `"instruction":"` + filler(n) + `",`
	}
	return answer(out + `"tools":{"add":[{"name":"more","description":"more","parameters":{"type":"object"}}]}}`)
}

//go:wasmexport before_model_rewrite_state
func beforeModelRewriteState(int32) int32 { return patch("before_model_rewrite_state") }

//go:wasmexport after_model_rewrite_state
func afterModelRewriteState(int32) int32 { act("after_model_rewrite_state"); return 0 }

//go:wasmexport after_tools
func afterTools(int32) int32 { return patch("after_tools") }

//go:wasmexport before_model
func beforeModel(int32) int32 {
	act("before_model")
	if !config.Loop {
		return 0
	}
	key, n := at([]byte("round"))
	round := string(pending(hostLocalAdd(key, n, 1))) // call ids are unique in a run
	var calls []string
	for i := range max(1, config.Calls) {
		calls = append(
			calls,
			`{"id":"c`+round+"-"+strconv.Itoa(i)+`","type":"function","function":{"name":"more","arguments":"{}"}}`,
		)
	}
	return answer(
		`{"response":{"message":{"role":"assistant","content":"` + filler(
			config.Answer["before_model"],
		) + `","tool_calls":[` + strings.Join(
			calls,
			",",
		) + `]}}}`,
	)
}

//go:wasmexport wrap_model
func wrapModel(int32) int32 {
	act("wrap_model")
	if config.Loop || config.Answer["wrap_model"] == 0 {
		return 0
	}
	if hostNextStream(nil, 0) < 0 {
		return 0
	}
	text := filler(config.Answer["wrap_model"])
	for {
		n := hostRecv()
		if n <= 0 {
			return 0
		}
		if strings.HasPrefix(string(pending(n)), `{"end"`) {
			return 0
		}
		do("send", "", text)
	}
}

//go:wasmexport on_chunk
func onChunk(int32) int32 {
	act("on_chunk")
	n := config.Answer["on_chunk"]
	if n == 0 {
		return 0
	}
	return answer(`{"chunks":[{"kind":"text","text":"` + filler(n) + `"}]}`)
}

//go:wasmexport after_model
func afterModel(int32) int32 { act("after_model"); return 0 }

//go:wasmexport before_tool
func beforeTool(int32) int32 { act("before_tool"); return 0 }

//go:wasmexport wrap_tool_call
func wrapToolCall(int32) int32 { act("wrap_tool_call"); return 0 }

//go:wasmexport gate_tool
func gateTool(int32) int32 {
	act("gate_tool")
	if config.Ask {
		return answer(`{"decision":"ask","message":"more?","payload":"` + filler(config.Answer["gate_tool"]) + `"}`)
	}
	return answer(`{"decision":"allow"}`)
}

//go:wasmexport call_tool
func callTool(int32) int32 {
	act("call_tool")
	return answer(`{"result":{"content":"` + filler(config.Answer["call_tool"]) + `"}}`)
}

//go:wasmexport after_tool
func afterTool(int32) int32 { act("after_tool"); return 0 }

//go:wasmexport after_agent
func afterAgent(int32) int32 {
	act("after_agent")
	if n := config.Answer["after_agent"]; n > 0 {
		return answer(`{"final":` + message("assistant", filler(n)) + `}`)
	}
	return 0
}

//go:wasmexport observe
func observe(int32) int32 { act("observe"); return 0 }

//go:wasmexport translate_before
func translateBefore(int32) int32 { act("translate_before"); return 0 }
