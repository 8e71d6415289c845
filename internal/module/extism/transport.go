// Package extism is the transport of Extism plug-ins: hooks are exports of type
// () -> i32, input, output, errors, variables and logs go through Extism's
// imports, and the host calls of the ABI are functions of extism:host/user.
//
// Other hosts run Extism's kernel as a module of its own. Here, [Imports]
// implements it on the host's side. A well-behaved plug-in sees the behaviour
// of Extism's Go SDK, with which the tests compare it. The package also reads
// Extism manifests. It imports package native for the table of host calls, and
// never package module.
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
)

// Transport is the transport of Extism plug-ins: hooks are exports of type () -> i32,
// input, output, errors, variables and logs go through Extism's imports, and the
// host calls of the ABI are functions of extism:host/user. All of them are served
// here. What Extism's kernel does, a module of its own in other hosts, is done by
// blocks; nothing that the plug-in can reach tells where one begins.
//
// An honest plug-in finds what Extism's Go SDK gives it, which the tests compare.
type Transport struct{}

// The modules that Extism plug-ins import from.
const (
	ModulePrefix = "extism:"
	EnvModule    = "extism:host/env"
	UserModule   = "extism:host/user"
)

var HookType = verify.FuncType{Results: []api.ValueType{api.ValueTypeI32}}

func (Transport) Name() string { return "extism" }

func (Transport) HostBytes(l *policy.Limits) int64 { return int64(blockBytes(l)) }

func (Transport) HookType() verify.FuncType { return HookType }

// Start sets up what languages' runtimes want to be set up, as Extism does: in
// Haskell hs_init, and elsewhere the constructors, if there is no _initialize that
// calls them. The context has the visit of the image's making, which _initialize
// has seen too.
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

func (Transport) Pack(context.Context, *sandbox.Instance, *invoke.Invocation) error { return nil }

func (Transport) Call(ctx context.Context, in *sandbox.Instance, inv *invoke.Invocation) (failed bool, err error) {
	defer func() { inv.State = nil }() // a visit may be kept longer than its blocks
	p := pluginOf(inv)
	results, err := in.Call(inv.Context(ctx), string(inv.Hook))
	if err != nil {
		if len(p.failure) > 0 { // what a panic of some languages says
			inv.Remember("error_set: " + string(p.failure[:min(len(p.failure), maxRemembered)]))
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

// explain makes an error object of how a call failed, unless late says that there
// is no time for reading what the plug-in says.
func (p *plugin) explain(code int32, late func() error) ([]byte, error) {
	said, object := p.failure, false
	if len(said) == 0 {
		said = p.output
	}
	if len(said) > 0 && said[0] == '{' {
		var e abi.Error
		_, err := abijson.DecodeUntil(said, &e, late)
		var over *sandbox.Fault
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
		return abijson.Marshal(abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("returned %d, and set no error", code)})
	}
}

// maxRemembered bounds the text of error_set that a trap reports, in bytes.
const maxRemembered = 1 << 10

// A plugin is what belongs to one call of an Extism plug-in.
type plugin struct {
	blocks
	input     []byte
	inputAt   uint64
	output    []byte
	outputAt  uint64
	failure   []byte // the text of error_set
	failureAt uint64
	status    int    // of the last response
	headers   []byte // of it, JSON
}

// pluginOf returns the visit's plugin. Its first block is the input.
func pluginOf(inv *invoke.Invocation) *plugin {
	if p, ok := inv.State.(*plugin); ok {
		return p
	}
	p := &plugin{input: inv.Pending}
	p.most = blockBytes(inv.Limits) + len(inv.Pending)
	p.inputAt = p.add(inv.Pending, true)
	inv.State = p
	return p
}

// free frees the block that begins at an offset, and tells whether there was one.
// What the plug-in made its answer stays that, also if it frees the block.
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

// own makes a block one that may be changed.
func (p *plugin) own(b *block) {
	b.data, b.shared = jsoncodec.Clone(b.data), false
	if b.at == p.inputAt {
		p.input = b.data[:len(p.input)]
	}
}

// blockBytes is how many bytes of blocks one call may have: those of several
// inputs and answers at their limits, but never more than the plug-in may have of
// linear memory. They are beside that, as they are in Extism.
func blockBytes(l *policy.Limits) int {
	return min(int(l.MemoryBytes), 4*max(l.InputBytes, l.OutputBytes, l.ReplyBytes))
}

// A CallError is the cause of a fault: a host call of an Extism plug-in that
// cannot be answered, since it has no way to say so but to end the call.
type CallError struct{ text string }

func (e *CallError) Error() string { return e.text }

// abortCall is abort for what a host call answered.
func abortCall(inv *invoke.Invocation, g *sandbox.Guest, name string, err error) {
	var e *abi.Error
	if errors.As(err, &e) {
		err = &CallError{fmt.Sprintf("%s: %s: %s", name, e.Code, e.Message)}
	}
	inv.Abort(g, err)
}
