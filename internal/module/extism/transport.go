// Package extism is the transport of Extism plug-ins. Hooks are exports of type () -> i32. Input,
// output, errors, variables and logs pass through Extism's imports. The host calls of the ABI are
// functions of extism:host/user.
//
// Other hosts run Extism's kernel as a WebAssembly module. In this package, the functions of
// [Imports] implement the kernel in Go. A correct plug-in behaves as it does in Extism's Go SDK,
// and the tests compare both.
//
// The package also parses Extism manifests. It imports package plain for the table of host calls.
// It must not import package module.
package extism

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Transport calls the hooks of Extism plug-ins.
type Transport struct{}

// The modules from which Extism plug-ins import functions.
const (
	ModulePrefix = "extism:"
	EnvModule    = "extism:host/env"
	UserModule   = "extism:host/user"
)

// HookType is the function type of hooks.
var HookType = verify.FuncType{Results: []api.ValueType{api.ValueTypeI32}}

// Name returns "extism".
func (Transport) Name() string { return "extism" }

// HostBytes returns the maximum memory, in bytes, that the blocks of one call take.
func (Transport) HostBytes(l *policy.Limits) int64 { return int64(blockBytes(l)) }

// HookType returns [HookType].
func (Transport) HookType() verify.FuncType { return HookType }

// Start initializes a language's runtime in the same way as Extism. It calls hs_init for Haskell.
// For other languages it calls __wasm_call_ctors, unless _initialize has already run the
// constructors. ctx contains the invocation for building the image.
func (Transport) Start(ctx context.Context, in *sandbox.Instance, _ *invoke.Invocation) error {
	i32s := []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}
	var initialized, constructors, haskell bool
	for _, e := range in.Image().Exports() {
		switch e.Name {
		case "_initialize":
			initialized = true
		case "__wasm_call_ctors":
			constructors = e.Kind == "function" && len(e.Type.Params) == 0
		case "hs_init":
			haskell = e.Kind == "function" && string(e.Type.Params) == string(i32s)
		}
	}
	var err error
	switch {
	case haskell:
		_, err = in.Call(ctx, "hs_init", 0, 0)
	case constructors && !initialized:
		_, err = in.Call(ctx, "__wasm_call_ctors")
	}
	return err
}

// Pack does nothing: an Extism module needs no preparation for its image.
func (Transport) Pack(context.Context, *sandbox.Instance, *invoke.Invocation) error { return nil }

// Call calls the hook, which reads its input and returns its output through blocks. The result
// failed reports whether the hook returned an error.
func (Transport) Call(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) (failed bool, err error) {
	defer func() { inv.State = nil }() // the invocation may be used after its blocks are gone
	p := pluginOf(inv)
	results, err := in.Call(inv.Context(ctx), string(inv.Hook))
	if err != nil {
		if len(p.failure) > 0 { // the message of a panic in some languages
			inv.Remember("error_set: " + string(truncate.Text(p.failure, maxRemembered)))
		}
		return false, err
	}
	code := int32(0)
	if len(results) > 0 {
		code = api.DecodeI32(results[0])
	}
	inv.Output = p.output
	if code == 0 && len(p.failure) == 0 {
		return false, nil
	}
	inv.Report = in.Report()
	inv.Output, err = p.explain(code, inv.AnswerDeadline())
	return true, err
}

// explain returns the JSON of an [abi.Error] for a failed call. This is the text that the plug-in
// set or returned, if that text is an abi.Error, or a new error. When the time for decoding the
// text is used up, late returns an error, which explain returns.
func (p *plugin) explain(code int32, late func() error) ([]byte, error) {
	said, object := p.failure, false
	if len(said) == 0 {
		said = p.output
	}
	if len(said) > 0 && said[0] == '{' {
		var e abi.Error
		_, err := abijson.DecodeUntil(said, &e, late)
		var over *sandbox.FaultError
		if errors.As(err, &over) {
			return nil, over
		}
		object = err == nil && (e.Code != "" || e.Message != "")
	}
	switch {
	case object:
		return said, nil
	case len(p.failure) > 0:
		return abijson.Marshal(abi.Error{Code: abi.CodeInternal, Message: strings.ToValidUTF8(string(p.failure), "\ufffd")})
	default:
		return abijson.Marshal(
			abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("returned %d without setting an error", code)},
		)
	}
}

// maxRemembered is the maximum length, in bytes, of the text of error_set that a fault contains
// after a trap.
const maxRemembered = 1 << 10

// A plugin is the state of one call of an Extism plug-in.
type plugin struct {
	blocks
	input     []byte
	inputAt   uint64
	output    []byte
	outputAt  uint64
	failure   []byte // text of error_set
	failureAt uint64
	status    int    // status of the last HTTP response
	headers   []byte // headers of the last HTTP response, as JSON
}

// pluginOf returns the plug-in's state in the invocation. If there is none, it creates the state
// with the input as the first block.
func pluginOf(inv *invoke.Invocation) *plugin {
	if p, ok := inv.State.(*plugin); ok {
		return p
	}
	p := &plugin{input: inv.Pending}
	p.limit = blockBytes(inv.Limits) + len(inv.Pending)
	p.inputAt = p.add(inv.Pending, true)
	inv.State = p
	return p
}

// free frees the block that starts at the offset. It returns whether there was such a block. The
// memory is not reused if it contains the input, the answer or the error.
func (p *plugin) free(at uint64) bool {
	b := p.at(at)
	if b == nil {
		return false
	}
	looked := func(at uint64, part []byte) bool { return len(part) > 0 && at-b.at < uint64(len(b.data)) }
	if !b.shared && !looked(p.inputAt, p.input) && !looked(p.outputAt, p.output) && !looked(p.failureAt, p.failure) {
		p.retire(b.data)
	}
	return p.blocks.free(at)
}

// own makes a read-only block writable by copying it.
func (p *plugin) own(b *block) {
	b.data, b.shared = jsoncodec.Clone(b.data), false
	if b.at == p.inputAt {
		p.input = b.data[:len(p.input)]
	}
}

// blockBytes returns the limit of block memory in one call, in bytes. The limit is four times the
// largest of input_bytes, output_bytes and reply_bytes, but at most memory_bytes. As in Extism,
// block memory does not count as linear memory.
func blockBytes(l *policy.Limits) int {
	return min(int(l.MemoryBytes), 4*max(l.InputBytes, l.OutputBytes, l.ReplyBytes))
}

// A CallError is the cause of a fault: a host call failed, and the Extism function for the call
// cannot return an error.
type CallError struct{ text string }

func (e *CallError) Error() string { return e.text }

// abortCall aborts the guest with the error of a host call.
func abortCall(inv *invoke.Invocation, g *sandbox.Guest, name string, err error) {
	var e *abi.Error
	if errors.As(err, &e) {
		err = &CallError{fmt.Sprintf("%s: %s: %s", name, e.Code, e.Message)}
	}
	inv.Abort(g, err)
}
