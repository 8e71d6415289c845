// Package sdktest tests the SDKs for languages other than Go. Their modules run on a scripted host
// that records every host call, so that the tests can compare the calls of all SDKs.
package sdktest

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A Call is one host call of a module.
type Call struct {
	Import string
	Args   []string // strings unchanged, numbers in decimal
}

// String returns the call as one line.
func (c Call) String() string {
	if len(c.Args) == 0 {
		return c.Import
	}
	return c.Import + " " + strings.Join(c.Args, " ")
}

// A Host records the calls of a module and replies to them with Answer.
type Host struct {
	// Answer returns the reply to a call, or an error for the module. The reply to a call of the
	// import "changed" is a number in decimal.
	Answer func(Call) (reply string, err *abi.Error)
	Calls  []Call
	// Printed holds the module's output, such as the message of a panic.
	Printed bytes.Buffer

	runtime wazero.Runtime
	module  api.Module
	pending []byte
	output  []byte
}

const i32, i64 = api.ValueTypeI32, api.ValueTypeI64

// The kinds of an import's parameters: a string is two i32, its address and length; a number is one
// i32 or one i64.
const (
	textArg = iota
	smallArg
	largeArg
)

// imports holds the parameters of the ABI's imports that Answer replies to.
var imports = map[string][]int{
	"next": {textArg}, "next_stream": {textArg}, "recv": {}, "send": {textArg},
	"messages": {smallArg, smallArg, smallArg}, "changed": {smallArg, largeArg},
	"local_get": {
		textArg,
	}, "local_set": {textArg, textArg, largeArg}, "local_delete": {textArg}, "local_add": {textArg, largeArg},
	"store_get": {
		textArg,
	}, "store_set": {textArg, textArg, largeArg, largeArg}, "store_delete": {textArg}, "store_add": {textArg, largeArg},
	"emit": {textArg}, "model": {textArg}, "tool": {textArg}, "config": {},
}

// New loads a module that imports only the ABI.
func New(ctx context.Context, wasm []byte) (*Host, error) {
	return load(ctx, &Host{runtime: wazero.NewRuntime(ctx)}, wasm)
}

// NewWithWASI loads a module that may also import WASI, as modules written in Go do.
func NewWithWASI(ctx context.Context, wasm []byte) (*Host, error) {
	h := &Host{runtime: wazero.NewRuntime(ctx)}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, h.runtime); err != nil {
		return nil, err
	}
	return load(ctx, h, wasm)
}

// load defines the ABI's imports and instantiates the module.
func load(ctx context.Context, h *Host, wasm []byte) (*Host, error) {
	b := h.runtime.NewHostModuleBuilder("agent_middleware_v1")
	function := func(name string, fn api.GoModuleFunc, params, results []api.ValueType) {
		b = b.NewFunctionBuilder().WithGoModuleFunction(fn, params, results).Export(name)
	}
	function("read", func(_ context.Context, m api.Module, stack []uint64) {
		n := min(int(int32(stack[1])), len(h.pending))
		if !m.Memory().Write(uint32(stack[0]), h.pending[:n]) {
			panic("read outside of memory")
		}
		stack[0] = uint64(n)
	}, []api.ValueType{i32, i32}, []api.ValueType{i32})
	function("write", func(_ context.Context, m api.Module, stack []uint64) {
		h.output = []byte(memory(m, stack[0], stack[1]))
	}, []api.ValueType{i32, i32}, nil)
	function("log", func(_ context.Context, m api.Module, stack []uint64) {
		h.Calls = append(h.Calls, Call{"log", []string{fmt.Sprint(int32(stack[0])), memory(m, stack[1], stack[2])}})
	}, []api.ValueType{i32, i32, i32}, nil)
	for name, params := range imports {
		var types []api.ValueType
		for _, p := range params {
			types = append(types, [][]api.ValueType{{i32, i32}, {i32}, {i64}}[p]...)
		}
		function(name, func(_ context.Context, m api.Module, stack []uint64) {
			stack[0] = api.EncodeI32(h.call(m, name, params, stack))
		}, types, []api.ValueType{i32})
	}
	if _, err := b.Instantiate(ctx); err != nil {
		return nil, err
	}
	var err error
	h.module, err = h.runtime.InstantiateWithConfig(
		ctx,
		wasm,
		wazero.NewModuleConfig().WithStartFunctions("_initialize").WithStdout(&h.Printed).WithStderr(&h.Printed),
	)
	return h, err
}

// memory returns a text in the module's memory.
func memory(m api.Module, ptr, n uint64) string {
	b, ok := m.Memory().Read(uint32(ptr), uint32(n))
	if !ok {
		panic("a text outside of memory")
	}
	return string(b)
}

// call records a call of an import, and returns its result.
func (h *Host) call(m api.Module, name string, params []int, stack []uint64) int32 {
	c := Call{Import: name}
	i := 0
	for _, p := range params {
		switch p {
		case textArg:
			if text := memory(m, stack[i], stack[i+1]); text != "" || len(params) > 1 {
				c.Args = append(c.Args, text)
			}
			i++
		case smallArg:
			c.Args = append(c.Args, fmt.Sprint(int32(stack[i])))
		default:
			c.Args = append(c.Args, fmt.Sprint(int64(stack[i])))
		}
		i++
	}
	h.Calls = append(h.Calls, c)
	reply, failed := h.Answer(c)
	if failed != nil {
		b, err := abijson.Marshal(failed)
		if err != nil {
			panic(err)
		}
		h.pending = b
		return int32(-len(b))
	}
	if name == "changed" {
		var n int32
		if _, err := fmt.Sscan(reply, &n); err != nil {
			panic(err)
		}
		return n
	}
	h.pending = []byte(reply)
	return int32(len(reply))
}

// Hook calls an export with an input. It returns the module's output, and whether the export
// returned 0.
func (h *Host) Hook(ctx context.Context, export, input string) (output string, ok bool, err error) {
	fn := h.module.ExportedFunction(export)
	if fn == nil {
		return "", false, fmt.Errorf("the module does not export %s", export)
	}
	h.pending, h.output = []byte(input), nil
	results, err := fn.Call(ctx, uint64(len(input)))
	if err != nil {
		return "", false, err
	}
	return string(h.output), results[0] == 0, nil
}

// Memory returns the size of the module's memory in bytes.
func (h *Host) Memory() uint32 { return h.module.Memory().Size() }

// Close closes the host's runtime.
func (h *Host) Close(ctx context.Context) error { return h.runtime.Close(ctx) }
