package module

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// extismPlugin is the transport of Extism plug-ins: hooks are exports of type () -> i32,
// input, output, errors, variables and logs go through Extism's imports, and the
// host calls of the ABI are functions of extism:host/user. All of them are served
// here. What Extism's kernel does, a module of its own in other hosts, is done by
// blocks; nothing that the plug-in can reach tells where one begins.
//
// An honest plug-in finds what Extism's Go SDK gives it, which the tests compare.
type extismPlugin struct{}

// The modules that Extism plug-ins import from.
const (
	extismPrefix = "extism:"
	extismEnv    = "extism:host/env"
	extismUser   = "extism:host/user"
)

var extismHook = sandbox.FuncType{Results: []api.ValueType{api.ValueTypeI32}}

func (extismPlugin) name() string { return "extism" }

func (extismPlugin) holds(l *Limits) int64 { return int64(blockBytes(l)) }

func (extismPlugin) hook() sandbox.FuncType { return extismHook }

// start sets up what languages' runtimes want to be set up, as Extism does: in
// Haskell hs_init, and elsewhere the constructors, if there is no _initialize that
// calls them. The context has the visit of the image's making, which _initialize
// has seen too.
func (extismPlugin) start(ctx context.Context, in *sandbox.Instance, _ *visit) error {
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

func (extismPlugin) pack(context.Context, *sandbox.Instance, *visit) error { return nil }

func (extismPlugin) readable(text string) string { return text }

func (extismPlugin) call(ctx context.Context, in *sandbox.Instance, v *visit) (failed bool, err error) {
	defer func() { v.plugin = nil }() // a visit may be kept longer than its blocks
	p := v.asPlugin()
	results, err := in.Call(v.context(ctx), string(v.hook))
	if err != nil {
		if len(p.failure) > 0 { // what a panic of some languages says
			v.remember("error_set: " + string(p.failure[:min(len(p.failure), maxMessage)]))
		}
		return false, err
	}
	code := int32(0)
	if len(results) > 0 {
		code = api.DecodeI32(results[0])
	}
	v.output = p.output
	if code == 0 && len(p.failure) == 0 {
		return false, nil
	}
	v.report = in.Report()
	v.output, err = p.explain(code, v.late())
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
		_, err := abi.DecodeUntil(said, &e, late)
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
		return abi.Marshal(abi.Error{Code: abi.CodeInternal, Message: strings.ToValidUTF8(string(p.failure), "\ufffd")})
	default:
		return abi.Marshal(abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("returned %d, and set no error", code)})
	}
}

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

// asPlugin returns the visit's plugin. Its first block is the input.
func (v *visit) asPlugin() *plugin {
	if v.plugin == nil {
		v.plugin = &plugin{input: v.pending}
		v.plugin.most = blockBytes(v.limits) + len(v.pending)
		v.plugin.inputAt = v.plugin.add(v.pending, true)
	}
	return v.plugin
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
	b.data, b.shared = abi.Clone(b.data), false
	if b.at == p.inputAt {
		p.input = b.data[:len(p.input)]
	}
}

// blockBytes is how many bytes of blocks one call may have: those of several
// inputs and answers at their limits, but never more than the plug-in may have of
// linear memory. They are beside that, as they are in Extism.
func blockBytes(l *Limits) int {
	return min(int(l.MemoryBytes), 4*max(l.InputBytes, l.OutputBytes, l.ReplyBytes))
}

// A callError is the cause of a fault: a host call of an Extism plug-in that
// cannot be answered, since it has no way to say so but to end the call.
type callError struct{ text string }

func (e *callError) Error() string { return e.text }

// abort ends the guest in an import of Extism's.
func (v *visit) abort(g *sandbox.Guest, err error) {
	v.inside = true
	g.Abort(err)
}

// abortCall is abort for what a host call answered.
func (v *visit) abortCall(g *sandbox.Guest, name string, err error) {
	var e *abi.Error
	if errors.As(err, &e) {
		err = &callError{fmt.Sprintf("%s: %s: %s", name, e.Code, e.Message)}
	}
	v.abort(g, err)
}

// importsOf tells which of the ABI's transports a module's imports are of.
func importsOf(imports []sandbox.ImportInfo) (isExtism, isNative bool) {
	for _, imp := range imports {
		isExtism = isExtism || strings.HasPrefix(imp.Module, extismPrefix)
		isNative = isNative || imp.Module == abi.ImportModule
	}
	return isExtism, isNative
}
