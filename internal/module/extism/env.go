package extism

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An envFunction is one function of extism:host/env.
type envFunction struct {
	name   string
	params string // types of the parameters; see invoke.ValueTypes
	result string
	does   string
	grant  string
	fuel   policy.FuelClass

	// quick implements a function that copies bytes between the plug-in and its blocks. Such calls
	// do not count as host calls, because a plug-in needs thousands of them to read its input.
	quick func(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64)
	// do implements any other function that does not wait. send implements a function that waits.
	do   func(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64)
	send func(ctx context.Context, p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64)
}

// envFunctions returns all functions of extism:host/env.
func envFunctions() []envFunction {
	const memory = "exchange bytes with the host"
	rows := []envFunction{
		{name: "alloc", params: "I", result: "I", quick: alloc, does: memory},
		{name: "free", params: "I", quick: free, does: memory},
		{name: "length", params: "I", result: "I", quick: length, does: memory},
		{name: "length_unsafe", params: "I", result: "I", quick: length, does: memory},
		{name: "load_u8", params: "I", result: "i", quick: load8, does: memory},
		{name: "load_u64", params: "I", result: "I", quick: loadWord, does: memory},
		{name: "store_u8", params: "Ii", quick: store8, does: memory},
		{name: "store_u64", params: "II", quick: storeWord, does: memory},
		{name: "memory_bytes", result: "I", quick: memoryBytes, does: memory},
		{name: "reset", quick: reset, does: memory},
		{name: "input_offset", result: "I", quick: inputOffset, does: "read its input"},
		{name: "input_length", result: "I", quick: inputLength, does: "read its input"},
		{name: "input_load_u8", params: "I", result: "i", quick: inputLoad8, does: "read its input"},
		{name: "input_load_u64", params: "I", result: "I", quick: inputLoad64, does: "read its input"},
		{name: "input_set", params: "II", quick: inputSet, does: "replace the input that it sees"},
		{name: "output_set", params: "II", quick: outputSet, does: "answer"},
		{name: "output_offset", result: "I", quick: outputOffset, does: "read its answer"},
		{name: "output_length", result: "I", quick: outputLength, does: "read its answer"},
		{name: "error_set", params: "I", quick: errorSet, does: "describe the failure"},
		{name: "error_get", result: "I", quick: errorGet, does: "read why it failed"},
		{name: "config_get", params: "I", result: "I", do: configGet, does: "read its configuration"},
		{name: "var_get", params: "I", result: "I", do: varGet, does: "read run-local values"},
		{name: "var_set", params: "II", do: varSet, fuel: policy.FuelValue, does: "store run-local values"},
		{name: "http_request", params: "II", result: "I", grant: "http:HOST", send: sendHTTP, does: "send HTTP requests"},
		{name: "http_status_code", result: "i", quick: httpStatus, does: "read the reply to its request"},
		{name: "http_headers", result: "I", quick: httpHeaders, does: "read the reply to its request"},
		{name: "get_log_level", result: "i", quick: zero, does: "ask which levels are logged: all"},
	}
	for name, level := range map[string]int32{
		"log_trace": contract.LogDebug, "log_debug": contract.LogDebug, "log_info": contract.LogInfo,
		"log_warn": contract.LogWarn, "log_error": contract.LogError,
	} {
		rows = append(rows, envFunction{name: name, params: "I", fuel: policy.FuelRecord, does: "log", do: logText(level)})
	}
	return rows
}

// Imports returns the functions of Extism that plug-ins may import. Plug-ins may also import those of WASI.
func Imports() []invoke.Import {
	rows := envFunctions()
	out := make([]invoke.Import, len(rows))
	for i := range rows {
		row := &rows[i]
		out[i] = invoke.Import{
			Import: sandbox.Import{
				Module:  EnvModule,
				Name:    row.name,
				Params:  invoke.ValueTypes(row.params),
				Results: invoke.ValueTypes(row.result),
				Quick:   row.quick != nil,
				Func:    row.call,
			},
			Does:  row.does,
			Grant: row.grant,
			Fuel:  row.fuel,
		}
	}
	return append(out, userImports()...)
}

// call implements the import for the sandbox.
func (row *envFunction) call(ctx context.Context, g *sandbox.Guest, stack []uint64) {
	inv := invoke.Of(ctx)
	if row.quick != nil {
		row.quick(pluginOf(inv), inv, g, stack)
		return
	}
	inv.Begin(g, row.fuel)
	if row.send != nil {
		row.send(ctx, pluginOf(inv), inv, g, stack)
	} else {
		row.do(pluginOf(inv), inv, g, stack)
	}
	inv.End()
}

// outside aborts the guest because no block contains the n bytes at the offset at. The argument
// name is the function that the guest called.
func outside(inv *invoke.Invocation, g *sandbox.Guest, name string, n, at uint64) {
	inv.Abort(g, &CallError{fmt.Sprintf("%s: %d bytes at offset %#x are in no block", name, n, at)})
}

// give passes b to the guest: it adds a read-only block with b, charges the guest for the bytes,
// and returns the offset of the block. It aborts the guest if the block would exceed a limit.
func (p *plugin) give(inv *invoke.Invocation, g *sandbox.Guest, b []byte) uint64 {
	if err := p.checkSize(uint64(len(b))); err != nil {
		inv.Abort(g, err)
	}
	g.Charge(len(b))
	return p.add(b, true)
}

// whole returns the content of the block that starts at offset at, without copying it. At offset 0
// the content is empty. whole aborts the guest if no block starts at the offset, or if the block is
// larger than output_bytes. The argument name is the function or argument that the error names.
func (p *plugin) whole(inv *invoke.Invocation, g *sandbox.Guest, name string, at uint64) []byte {
	if at == 0 {
		return nil
	}
	b := p.at(at)
	if b == nil {
		inv.Abort(g, &CallError{fmt.Sprintf("%s: no block begins at offset %#x", name, at)})
	}
	if len(b.data) > inv.Limits.OutputBytes {
		inv.Abort(g, &policy.LimitError{
			Limit: "output_bytes",
			Max:   inv.Limits.OutputBytes,
			What:  fmt.Sprintf("%s: %d bytes", name, len(b.data)),
		})
	}
	return b.data
}

// take is like whole, but charges the guest for the bytes and returns a copy of them.
func (p *plugin) take(inv *invoke.Invocation, g *sandbox.Guest, name string, at uint64) []byte {
	b := p.whole(inv, g, name, at)
	g.Charge(len(b))
	inv.ChargeBytes(g, len(b))
	return jsoncodec.Clone(b)
}

func alloc(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	n := stack[0]
	if err := p.checkSize(n); err != nil {
		inv.Abort(g, err)
	}
	g.Charge(int(n))
	stack[0] = p.add(p.fresh(n, g.CheckLimits), false)
}

// free implements the function free. Like Extism, it ignores offsets at which no live block starts,
// because some SDKs free blocks that a host call has already freed.
func free(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	if p.free(stack[0]) && stack[0] == p.inputAt {
		p.input = nil
	}
}

func length(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	b := p.at(stack[0])
	stack[0] = 0
	if b != nil {
		stack[0] = uint64(len(b.data))
	}
}

func load8(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	b := p.part(stack[0], 1)
	if b == nil {
		outside(inv, g, "load_u8", 1, stack[0])
	}
	inv.BytesIn++
	stack[0] = uint64(b[0])
}

func loadWord(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	b := p.part(stack[0], 8)
	if b == nil {
		outside(inv, g, "load_u64", 8, stack[0])
	}
	inv.BytesIn += 8
	stack[0] = binary.LittleEndian.Uint64(b)
}

func store8(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	p.change(inv, g, "store_u8", stack[0], 1)[0] = byte(stack[1])
}

func storeWord(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	binary.LittleEndian.PutUint64(p.change(inv, g, "store_u64", stack[0], 8), stack[1])
}

// change returns the n bytes at an offset for writing. If their block is read-only, change first
// replaces the block's memory with a copy. If no block contains the bytes, change aborts the guest.
func (p *plugin) change(inv *invoke.Invocation, g *sandbox.Guest, name string, at, n uint64) []byte {
	if b := p.in(at); b != nil && b.shared {
		g.Charge(len(b.data)) // p.own copies it
		p.own(b)
	}
	part := p.part(at, n)
	if part == nil {
		outside(inv, g, name, n, at)
	}
	inv.BytesOut += int64(n)
	return part
}

func memoryBytes(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	stack[0] = uint64(p.bytes)
}

// reset implements the function reset. It frees all blocks and clears the input, the output and the
// error. Offsets of freed blocks are not reused.
func reset(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, _ []uint64) {
	for i := range p.list {
		if b := &p.list[i]; !b.shared {
			p.retire(b.data)
		}
	}
	*p = plugin{blocks: blocks{next: p.next, limit: p.limit, spare: p.spare}, status: p.status, headers: p.headers}
}

func inputOffset(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	stack[0] = p.inputAt
}

func inputLength(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	stack[0] = uint64(len(p.input))
}

// inputLoad8 implements input_load_u8. Its result is one byte of the input, or 0 beyond the end of
// the input.
func inputLoad8(p *plugin, inv *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	inv.BytesIn++
	if i := stack[0]; i < uint64(len(p.input)) {
		stack[0] = uint64(p.input[i])
		return
	}
	stack[0] = 0
}

// inputLoad64 implements input_load_u64. Its result is eight bytes of the input, with 0 for those
// beyond the end of the input.
func inputLoad64(p *plugin, inv *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	inv.BytesIn += 8
	stack[0] = load64(p.input[min(stack[0], uint64(len(p.input))):])
}

func inputSet(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	p.input, p.inputAt = p.named(inv, g, "input_set", stack), stack[0]
}

func outputSet(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	p.output, p.outputAt = p.named(inv, g, "output_set", stack), stack[0]
	if len(p.output) > inv.Limits.OutputBytes {
		inv.Abort(g, &policy.LimitError{
			Limit: "output_bytes",
			Max:   inv.Limits.OutputBytes,
			What:  fmt.Sprintf("the answer: %d bytes", len(p.output)),
		})
	}
	inv.ChargeBytes(g, len(p.output))
}

// named returns the bytes whose offset and length are the parameters on the stack. If no block
// contains the bytes, named aborts the guest. The argument name is the function that the error
// names.
func (p *plugin) named(inv *invoke.Invocation, g *sandbox.Guest, name string, stack []uint64) []byte {
	if stack[1] == 0 {
		return nil
	}
	b := p.part(stack[0], stack[1])
	if b == nil {
		outside(inv, g, name, stack[1], stack[0])
	}
	return b
}

func outputOffset(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	stack[0] = p.outputAt
}

func outputLength(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	stack[0] = uint64(len(p.output))
}

func errorSet(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	p.failure, p.failureAt = p.whole(inv, g, "error_set", stack[0]), stack[0]
	inv.ChargeBytes(g, len(p.failure))
}

func errorGet(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	stack[0] = p.failureAt
}

func zero(_ *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) { stack[0] = 0 }

// configGet implements config_get. Its result is the offset of a block with a configuration value.
// The block contains the text of a string, or the JSON of any other value. The result is 0 if the
// configuration has no such value, or if the value is null or empty.
func configGet(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	name := p.whole(inv, g, "config_get: the name", stack[0])
	config := inv.Config
	if config == nil {
		config = inv.BuildConfig
	}
	g.Charge(len(config) + len(name))
	value := jsoncodec.FieldOf(config, string(name))
	var text string
	switch {
	case len(value) == 0 || string(value) == "null":
	case value[0] != '"':
		text = string(value)
	default:
		if err := json.Unmarshal(value, &text); err != nil {
			inv.Abort(g, fmt.Errorf("config_get: %w", err))
		}
	}
	stack[0] = p.give(inv, g, []byte(text))
}

// varPrefix is the prefix of the run-local keys under which Extism variables are stored.
const varPrefix = "var/"

// varKey returns the run-local key of the variable whose name is in the block at offset at, and
// frees that block. varKey aborts the guest if the name is too long or not valid UTF-8. The
// argument name is the function that the error names.
func (p *plugin) varKey(inv *invoke.Invocation, g *sandbox.Guest, name string, at uint64) string {
	b := p.whole(inv, g, name+": the name", at)
	switch {
	case len(b) > contract.MaxKey-len(varPrefix):
		inv.Abort(g, &CallError{
			fmt.Sprintf("%s: limit: a name of %d bytes; at most %d are allowed", name, len(b), contract.MaxKey-len(varPrefix)),
		})
	case !utf8.Valid(b):
		inv.Abort(g, &CallError{name + ": invalid: the name is not valid UTF-8"})
	}
	key := varPrefix + string(b)
	p.free(at)
	return key
}

func varGet(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	key := p.varKey(inv, g, "var_get", stack[0])
	stack[0] = 0
	if !inv.Running() {
		return // no variables exist yet
	}
	reply, err := inv.LocalGet(key)
	if err != nil {
		abortCall(inv, g, "var_get", err)
	}
	if len(reply) == 0 {
		return
	}
	var value struct{ Value replay.Blob }
	if err := json.Unmarshal(reply, &value); err != nil { // local_set stored a value that is not a variable
		inv.Abort(g, &CallError{fmt.Sprintf("var_get: invalid: run-local value %.64q is not a variable", key)})
	}
	stack[0] = p.give(inv, g, value.Value)
}

func varSet(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	key := p.varKey(inv, g, "var_set", stack[0])
	if !inv.Running() {
		abortCall(inv, g, "var_set", invoke.Unavailable("var_set"))
	}
	var err error
	if at := stack[1]; at == 0 {
		_, err = inv.LocalDelete(key)
	} else {
		var value []byte
		if value, err = variable(p.whole(inv, g, "var_set: the value", at)); err == nil {
			g.Charge(len(value))
			inv.ChargeBytes(g, len(value))
			_, err = inv.LocalSet(key, value, abi.LocalAlways)
		}
		p.free(at)
	}
	if err != nil {
		abortCall(inv, g, "var_set", err)
	}
}

// variable returns the JSON of a variable, which [replay.Blob] decodes. Text becomes a string,
// which other middlewares can read. Any other bytes become an object with base64.
func variable(b []byte) ([]byte, error) {
	binary := func(c rune) bool { return unicode.IsControl(c) && !strings.ContainsRune("\t\n\r", c) }
	if utf8.Valid(b) && !bytes.ContainsFunc(b, binary) {
		return abijson.Marshal(string(b))
	}
	const open, end = `{"base64":"`, `"}`
	out := make([]byte, 0, len(open)+base64.StdEncoding.EncodedLen(len(b))+len(end))
	return append(base64.StdEncoding.AppendEncode(append(out, open...), b), end...), nil
}

func logText(level int32) func(*plugin, *invoke.Invocation, *sandbox.Guest, []uint64) {
	return func(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
		text := p.whole(inv, g, "log", stack[0])
		inv.LogGuest(g, level, len(text), func(keep int) []byte {
			g.Charge(keep)
			return jsoncodec.Clone(text[:keep])
		})
		p.free(stack[0])
	}
}
