//go:build wasip1

// Command wasm-puppet is the puppet as a WebAssembly module. It uses the imports of the ABI
// directly, without an SDK. Its configuration has a script for each hook.
package main

import (
	"encoding/json"
	"errors"
	"unsafe"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func main() {}

//go:wasmimport agent_middleware_v1 read
func hostRead(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 write
func hostWrite(ptr unsafe.Pointer, n int32)

//go:wasmimport agent_middleware_v1 next
func hostNext(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 next_stream
func hostNextStream(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 recv
func hostRecv() int32

//go:wasmimport agent_middleware_v1 send
func hostSend(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 messages
func hostMessages(list, from, to int32) int32

//go:wasmimport agent_middleware_v1 local_get
func hostLocalGet(key unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 local_set
func hostLocalSet(key unsafe.Pointer, n int32, value unsafe.Pointer, m int32, version int64) int32

//go:wasmimport agent_middleware_v1 local_add
func hostLocalAdd(key unsafe.Pointer, n int32, delta int64) int32

//go:wasmimport agent_middleware_v1 model
func hostModel(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 tool
func hostTool(ptr unsafe.Pointer, n int32) int32

//go:wasmimport agent_middleware_v1 emit
func hostEmit(ptr unsafe.Pointer, n int32) int32

func at(b []byte) (unsafe.Pointer, int32) { return unsafe.Pointer(unsafe.SliceData(b)), int32(len(b)) }

// pending reads the reply of a host call that returned n. The reply has |n| bytes, and is an error
// if n is negative.
func pending(n int32) ([]byte, error) {
	b := make([]byte, max(n, -n))
	ptr, size := at(b)
	if size > 0 {
		b = b[:hostRead(ptr, size)]
	}
	if n >= 0 {
		return b, nil
	}
	failed := &abi.Error{}
	if err := json.Unmarshal(b, failed); err != nil {
		return nil, err
	}
	return nil, failed
}

// imports implements [puppet.Host] with the imports of the ABI.
type imports struct{ ofTool bool }

func (imports) Tell(name, text string) error {
	data, err := abijson.Marshal(text)
	if err != nil {
		return err
	}
	event, err := abijson.Marshal(struct {
		Name string   `json:"name"`
		Data abi.JSON `json:"data"`
	}{name, data})
	if err != nil {
		return err
	}
	_, err = pending(hostEmit(at(event)))
	return err
}

// reply decodes the reply of next, or the final result of a stream.
func (h imports) reply(b []byte) (any, error) {
	if h.ofTool {
		var r contract.ToolReply
		_, err := abijson.Decode(b, &r)
		return r.Result, err
	}
	var r contract.ModelReply
	_, err := abijson.Decode(b, &r)
	return r.Response, err
}

func (h imports) Next(patch any) (any, error) {
	b, err := abijson.Marshal(patch)
	if err != nil {
		return nil, err
	}
	if b, err = pending(hostNext(at(b))); err != nil {
		return nil, err
	}
	return h.reply(b)
}

func (h imports) Forward() (any, error) {
	if _, err := pending(hostNextStream(nil, 0)); err != nil {
		return nil, err
	}
	for {
		b, err := pending(hostRecv())
		if err != nil {
			return nil, err
		}
		var got struct {
			Chunks []abi.Chunk `json:"chunks"`
			End    abi.JSON    `json:"end"`
		}
		if err := json.Unmarshal(b, &got); err != nil {
			return nil, err
		}
		if got.End != nil {
			return h.reply(got.End)
		}
		if _, err := pending(hostSend(at(b))); err != nil {
			return nil, err
		}
	}
}

func (imports) Messages(list int) ([]abi.Message, error) {
	b, err := pending(hostMessages(int32(list), 0, 1<<30))
	if err != nil {
		return nil, err
	}
	var out []abi.Message
	_, err = abijson.Decode(b, &out)
	return out, err
}

func (imports) Get(key string) (string, error) {
	ptr, n := at([]byte(key))
	b, err := pending(hostLocalGet(ptr, n))
	if err != nil || len(b) == 0 {
		return "", err
	}
	var v struct {
		Value string `json:"value"`
	}
	err = json.Unmarshal(b, &v)
	return v.Value, err
}

func (imports) Set(key, value string) error {
	b, err := abijson.Marshal(value)
	if err != nil {
		return err
	}
	ptr, n := at([]byte(key))
	val, m := at(b)
	_, err = pending(hostLocalSet(ptr, n, val, m, abi.LocalAlways))
	return err
}

func (imports) Add(key string) (n int64, err error) {
	ptr, size := at([]byte(key))
	b, err := pending(hostLocalAdd(ptr, size, 1))
	if err != nil {
		return 0, err
	}
	err = json.Unmarshal(b, &n)
	return n, err
}

func (imports) Model(text string) (*abi.Response, error) {
	b, err := abijson.Marshal(
		abi.RequestPatch{Messages: abi.ListPatch{Whole: true, Replace: []abi.Message{abi.User(text)}}},
	)
	if err != nil {
		return nil, err
	}
	if b, err = pending(hostModel(at(b))); err != nil {
		return nil, err
	}
	res, err := imports{}.reply(b)
	out, _ := res.(*abi.Response)
	return out, err
}

func (imports) Tool(name, arguments string) (*abi.Result, error) {
	b, err := abijson.Marshal(contract.ToolRequest{Name: name, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	if b, err = pending(hostTool(at(b))); err != nil {
		return nil, err
	}
	res, err := imports{ofTool: true}.reply(b)
	out, _ := res.(*abi.Result)
	return out, err
}

// scripts holds the configured script of each hook. ran detects state that leaks between runs,
// since each run must start with the memory as configure left it.
var (
	scripts map[abi.Hook]puppet.Script
	ran     string // the run whose hooks this instance has served
)

// play runs a hook. It returns 0 if the hook succeeded and 1 if it failed. It panics to cause a
// fault.
func play[I, O any](hook abi.Hook, n int32) int32 {
	b, err := pending(n)
	if err != nil {
		panic(err)
	}
	in, out := new(I), new(O)
	if _, err := abijson.Decode(b, in); err != nil {
		panic(err)
	}
	input := any(in).(puppet.Input)
	if run := input.Envelope().Run.ID; ran != "" && ran != run {
		panic("the instance has served run " + ran)
	} else {
		ran = run
	}
	err = puppet.Play(imports{hook == contract.HookWrapToolCall}, hook, scripts[hook], input, out)
	failed, isError := errors.AsType[*abi.Error](err)
	switch {
	case isError:
		b, err = abijson.Marshal(failed)
	case err == nil:
		b, err = abijson.Marshal(out)
	}
	if err != nil {
		panic(err)
	}
	hostWrite(at(b))
	if isError {
		return 1
	}
	return 0
}

//go:wasmexport describe
func describe(int32) int32 {
	hostWrite(at([]byte(`{"name":"puppet","messages":"lazy"}`)))
	return 0
}

//go:wasmexport configure
func configure(n int32) int32 {
	b, err := pending(n)
	if err != nil {
		panic(err)
	}
	var in struct {
		Config map[abi.Hook]puppet.Script `json:"config"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		panic(err)
	}
	scripts = in.Config
	return 0
}
