//go:build wasip1

// Command wasm-glutton is a middleware that makes its host use as much memory as it can. Its configuration lists, for
// each hook, host calls to make and the size of the answer. It calls the imports of the ABI directly, because an SDK
// could limit the calls.
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

// pending reads the pending reply of the host, which has n bytes.
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

// answerError sends err as the answer of a hook and returns the code of a failure.
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

// do makes one host call, or computes if what is "spin". number distinguishes the keys of several
// calls, and text is the payload.
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

// serve makes the host calls of a hook and answers it.
func serve(hook string) int32 {
	act(hook)
	if text := answerOf(hook, config.Answer[hook]); text != "" {
		return answer(text)
	}
	return 0
}

// answerOf returns an answer with n bytes of text. It is empty if the hook changes nothing.
func answerOf(hook string, n int) string {
	switch hook {
	case "before_agent":
		const tools = `"tools":{"add":[{"name":"more","description":"more","parameters":{"type":"object"}}]}}`
		if n == 0 {
			return `{` + tools
		}
		return `{"instruction":"` + filler(n) + `",` + tools
	case "before_model":
		return modelAnswer(n)
	case "wrap_model":
		stream(n)
		return ""
	case "gate_tool":
		if config.Ask {
			return `{"decision":"ask","message":"more?","payload":"` + filler(n) + `"}`
		}
		return `{"decision":"allow"}`
	case "call_tool":
		return `{"result":{"content":"` + filler(n) + `"}}`
	}
	switch {
	case n == 0:
		return ""
	case hook == "on_chunk":
		return `{"chunks":[{"kind":"text","text":"` + filler(n) + `"}]}`
	case hook == "after_agent":
		return `{"final":` + message("assistant", filler(n)) + `}`
	default: // a state hook
		return `{"messages":{"splice":[{"at":0,"insert":[` + message("user", filler(n)) + `]}]}}`
	}
}

// modelAnswer answers for the model with calls of the module's own tool.
func modelAnswer(n int) string {
	if !config.Loop {
		return ""
	}
	key, size := at([]byte("round"))
	round := string(pending(hostLocalAdd(key, size, 1))) // call ids are unique in a run
	var calls []string
	for i := range max(1, config.Calls) {
		id := "c" + round + "-" + strconv.Itoa(i)
		calls = append(calls, `{"id":"`+id+`","type":"function","function":{"name":"more","arguments":"{}"}}`)
	}
	return `{"response":{"message":{"role":"assistant","content":"` + filler(n) +
		`","tool_calls":[` + strings.Join(calls, ",") + `]}}}`
}

// stream reads the model's answer and sends n bytes of text for each piece of it.
func stream(n int) {
	if config.Loop || n == 0 || hostNextStream(nil, 0) < 0 {
		return
	}
	text := filler(n)
	for {
		size := hostRecv()
		if size <= 0 || strings.HasPrefix(string(pending(size)), `{"end"`) {
			return
		}
		do("send", "", text)
	}
}
