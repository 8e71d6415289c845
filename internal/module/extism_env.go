package module

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
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An extismImport is one function of extism:host/env.
type extismImport struct {
	name   string
	params string // as of nativeImport
	result string
	does   string
	grant  string
	fuel   fuelClass

	// quick is for those that move bytes between the plug-in and its blocks. They
	// are no host calls: a plug-in needs thousands to read its input.
	quick func(p *plugin, v *visit, g *sandbox.Guest, stack []uint64)
	// do is for the others, and send for what waits.
	do   func(p *plugin, v *visit, g *sandbox.Guest, stack []uint64)
	send func(ctx context.Context, p *plugin, v *visit, g *sandbox.Guest, stack []uint64)
}

// extismImports are all functions of extism:host/env.
func extismImports() []extismImport {
	const memory = "hand bytes over"
	rows := []extismImport{
		{name: "alloc", params: "I", result: "I", quick: extismAlloc, does: memory},
		{name: "free", params: "I", quick: extismFree, does: memory},
		{name: "length", params: "I", result: "I", quick: extismLength, does: memory},
		{name: "length_unsafe", params: "I", result: "I", quick: extismLength, does: memory},
		{name: "load_u8", params: "I", result: "i", quick: extismLoad8, does: memory},
		{name: "load_u64", params: "I", result: "I", quick: extismLoad64, does: memory},
		{name: "store_u8", params: "Ii", quick: extismStore8, does: memory},
		{name: "store_u64", params: "II", quick: extismStore64, does: memory},
		{name: "memory_bytes", result: "I", quick: extismMemoryBytes, does: memory},
		{name: "reset", quick: extismReset, does: memory},
		{name: "input_offset", result: "I", quick: extismInputOffset, does: "read its input"},
		{name: "input_length", result: "I", quick: extismInputLength, does: "read its input"},
		{name: "input_load_u8", params: "I", result: "i", quick: extismInputLoad8, does: "read its input"},
		{name: "input_load_u64", params: "I", result: "I", quick: extismInputLoad64, does: "read its input"},
		{name: "input_set", params: "II", quick: extismInputSet, does: "change its input, for itself"},
		{name: "output_set", params: "II", quick: extismOutputSet, does: "answer"},
		{name: "output_offset", result: "I", quick: extismOutputOffset, does: "look at its answer"},
		{name: "output_length", result: "I", quick: extismOutputLength, does: "look at its answer"},
		{name: "error_set", params: "I", quick: extismErrorSet, does: "say why it failed"},
		{name: "error_get", result: "I", quick: extismErrorGet, does: "look at why it failed"},
		{name: "config_get", params: "I", result: "I", do: extismConfigGet, does: "read its configuration"},
		{name: "var_get", params: "I", result: "I", do: extismVarGet, does: "read run-local values"},
		{name: "var_set", params: "II", do: extismVarSet, fuel: fuelValue, does: "keep run-local values"},
		{name: "http_request", params: "II", result: "I", grant: "http:HOST", send: extismHTTPRequest, does: "send HTTP requests"},
		{name: "http_status_code", result: "i", quick: extismStatus, does: "read the reply to its request"},
		{name: "http_headers", result: "I", quick: extismHeaders, does: "read the reply to its request"},
		{name: "get_log_level", result: "i", quick: extismZero, does: "learn what is logged: everything"},
	}
	for name, level := range map[string]int32{"log_trace": abi.LogDebug, "log_debug": abi.LogDebug, "log_info": abi.LogInfo, "log_warn": abi.LogWarn, "log_error": abi.LogError} {
		rows = append(rows, extismImport{name: name, params: "I", fuel: fuelRecord, does: "log", do: extismLog(level)})
	}
	return rows
}

// call is the import as the sandbox calls it.
func (row *extismImport) call(ctx context.Context, g *sandbox.Guest, stack []uint64) {
	v := visitOf(ctx)
	if row.quick != nil {
		row.quick(v.asPlugin(), v, g, stack)
		return
	}
	v.inside, v.guest = true, g // and it stays inside if the guest ends in here
	if err := v.count(); err != nil {
		g.Abort(err)
	}
	v.chargeCall(g, row.fuel)
	if row.send != nil {
		row.send(ctx, v.asPlugin(), v, g, stack)
	} else {
		row.do(v.asPlugin(), v, g, stack)
	}
	v.inside = false
}

// outside ends a guest whose offset is none.
func (v *visit) outside(g *sandbox.Guest, name string, n, at uint64) {
	v.abort(g, &callError{fmt.Sprintf("%s: %d bytes at offset %#x lie in no block", name, n, at)})
}

// give makes a block of bytes that do not change any more.
func (p *plugin) give(v *visit, g *sandbox.Guest, b []byte) uint64 {
	if err := p.room(uint64(len(b))); err != nil {
		v.abort(g, err)
	}
	g.Charge(len(b))
	return p.add(b, true)
}

// whole returns what is in the block at an offset, without a copy; nothing for
// offset 0, as it is of an empty block.
func (p *plugin) whole(v *visit, g *sandbox.Guest, name string, at uint64) []byte {
	if at == 0 {
		return nil
	}
	b := p.at(at)
	if b == nil {
		v.abort(g, &callError{fmt.Sprintf("%s: no block begins at offset %#x", name, at)})
	}
	if len(b.data) > v.limits.OutputBytes {
		v.abort(g, &limitError{"output_bytes", v.limits.OutputBytes, fmt.Sprintf("%s: %d bytes", name, len(b.data)), ""})
	}
	return b.data
}

// take copies what is in the block at an offset.
func (p *plugin) take(v *visit, g *sandbox.Guest, name string, at uint64) []byte {
	b := p.whole(v, g, name, at)
	g.Charge(len(b))
	v.chargeBytes(g, len(b))
	return abi.Clone(b)
}

func extismAlloc(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	n := stack[0]
	if err := p.room(n); err != nil {
		v.abort(g, err)
	}
	g.Charge(int(n))
	stack[0] = p.add(p.fresh(n, g.Look), false)
}

// extismFree does nothing to what is no block, or not any more, as in Extism:
// there are kits that free what a host call has freed.
func extismFree(p *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) {
	if p.free(stack[0]) && stack[0] == p.inputAt {
		p.input = nil
	}
}

func extismLength(p *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) {
	b := p.at(stack[0])
	stack[0] = 0
	if b != nil {
		stack[0] = uint64(len(b.data))
	}
}

func extismLoad8(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	b := p.part(stack[0], 1)
	if b == nil {
		v.outside(g, "load_u8", 1, stack[0])
	}
	v.bytesIn++
	stack[0] = uint64(b[0])
}

func extismLoad64(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	b := p.part(stack[0], 8)
	if b == nil {
		v.outside(g, "load_u64", 8, stack[0])
	}
	v.bytesIn += 8
	stack[0] = binary.LittleEndian.Uint64(b)
}

func extismStore8(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	p.change(v, g, "store_u8", stack[0], 1)[0] = byte(stack[1])
}

func extismStore64(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	binary.LittleEndian.PutUint64(p.change(v, g, "store_u64", stack[0], 8), stack[1])
}

// change returns n bytes that are to be written.
func (p *plugin) change(v *visit, g *sandbox.Guest, name string, at, n uint64) []byte {
	if b := p.in(at); b != nil && b.shared {
		g.Charge(len(b.data)) // it is copied now
		p.own(b)
	}
	part := p.part(at, n)
	if part == nil {
		v.outside(g, name, n, at)
	}
	v.bytesOut += int64(n)
	return part
}

func extismMemoryBytes(p *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) {
	stack[0] = uint64(p.bytes)
}

// extismReset frees everything. Offsets go on from where they were.
func extismReset(p *plugin, _ *visit, _ *sandbox.Guest, _ []uint64) {
	for i := range p.list {
		if b := &p.list[i]; !b.shared {
			p.retire(b.data)
		}
	}
	*p = plugin{blocks: blocks{next: p.next, most: p.most, spare: p.spare}, status: p.status, headers: p.headers}
}

func extismInputOffset(p *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) { stack[0] = p.inputAt }

func extismInputLength(p *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) {
	stack[0] = uint64(len(p.input))
}

// What lies behind the input is 0, also to those that read its last bytes eight
// at a time.

func extismInputLoad8(p *plugin, v *visit, _ *sandbox.Guest, stack []uint64) {
	v.bytesIn++
	if i := stack[0]; i < uint64(len(p.input)) {
		stack[0] = uint64(p.input[i])
		return
	}
	stack[0] = 0
}

func extismInputLoad64(p *plugin, v *visit, _ *sandbox.Guest, stack []uint64) {
	v.bytesIn += 8
	stack[0] = load64(p.input[min(stack[0], uint64(len(p.input))):])
}

func extismInputSet(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	p.input, p.inputAt = p.named(v, g, "input_set", stack), stack[0]
}

func extismOutputSet(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	p.output, p.outputAt = p.named(v, g, "output_set", stack), stack[0]
	if len(p.output) > v.limits.OutputBytes {
		v.abort(g, &limitError{"output_bytes", v.limits.OutputBytes, fmt.Sprintf("the answer: %d bytes", len(p.output)), ""})
	}
	v.chargeBytes(g, len(p.output))
}

// named returns the bytes that an offset and a length name.
func (p *plugin) named(v *visit, g *sandbox.Guest, name string, stack []uint64) []byte {
	if stack[1] == 0 {
		return nil
	}
	b := p.part(stack[0], stack[1])
	if b == nil {
		v.outside(g, name, stack[1], stack[0])
	}
	return b
}

func extismOutputOffset(p *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) {
	stack[0] = p.outputAt
}

func extismOutputLength(p *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) {
	stack[0] = uint64(len(p.output))
}

func extismErrorSet(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	p.failure, p.failureAt = p.whole(v, g, "error_set", stack[0]), stack[0]
	v.chargeBytes(g, len(p.failure))
}

func extismErrorGet(p *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) { stack[0] = p.failureAt }

func extismZero(_ *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) { stack[0] = 0 }

// extismConfigGet gives strings as they are, and other values as their JSON.
func extismConfigGet(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	name := p.whole(v, g, "config_get: the name", stack[0])
	config := v.config
	if config == nil {
		config = v.settings
	}
	g.Charge(len(config) + len(name))
	value := abi.FieldOf(config, string(name))
	var text string
	switch {
	case len(value) == 0 || string(value) == "null":
	case value[0] != '"':
		text = string(value)
	default:
		if err := json.Unmarshal(value, &text); err != nil {
			v.abort(g, fmt.Errorf("config_get: %w", err))
		}
	}
	stack[0] = p.give(v, g, []byte(text))
}

// varPrefix begins the keys of the run-local values that Extism's variables are.
const varPrefix = "var/"

// varKey reads the name of a variable, and frees its block.
func (p *plugin) varKey(v *visit, g *sandbox.Guest, name string, at uint64) string {
	b := p.whole(v, g, name+": the name", at)
	switch {
	case len(b) > abi.MaxKey-len(varPrefix):
		v.abort(g, &callError{fmt.Sprintf("%s: limit: a name of %d bytes; at most %d are allowed", name, len(b), abi.MaxKey-len(varPrefix))})
	case !utf8.Valid(b):
		v.abort(g, &callError{name + ": invalid: the name is not valid UTF-8"})
	}
	key := varPrefix + string(b)
	p.free(at)
	return key
}

func extismVarGet(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	key := p.varKey(v, g, "var_get", stack[0])
	stack[0] = 0
	if !v.running() {
		return // there are none yet
	}
	reply, err := v.localGet(key)
	if err != nil {
		v.abortCall(g, "var_get", err)
	}
	if len(reply) == 0 {
		return
	}
	var value struct{ Value Blob }
	if err := json.Unmarshal(reply, &value); err != nil { // a plug-in wrote it by local_set
		v.abort(g, &callError{fmt.Sprintf("var_get: invalid: run-local value %q is no variable", short(key))})
	}
	stack[0] = p.give(v, g, value.Value)
}

func extismVarSet(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	key := p.varKey(v, g, "var_set", stack[0])
	if !v.running() {
		v.abortCall(g, "var_set", errBuilding("var_set"))
	}
	var err error
	if at := stack[1]; at == 0 {
		_, err = v.localDelete(key)
	} else {
		var value []byte
		if value, err = variable(p.whole(v, g, "var_set: the value", at)); err == nil {
			g.Charge(len(value))
			v.chargeBytes(g, len(value))
			_, err = v.localSet(key, value, abi.LocalAlways)
		}
		p.free(at)
	}
	if err != nil {
		v.abortCall(g, "var_set", err)
	}
}

// variable is the JSON of a variable, which may be any bytes, in a form that Blob
// reads: text is a string, so that others can read it.
func variable(b []byte) ([]byte, error) {
	binary := func(c rune) bool { return unicode.IsControl(c) && !strings.ContainsRune("\t\n\r", c) }
	if utf8.Valid(b) && !bytes.ContainsFunc(b, binary) {
		return abi.Marshal(string(b))
	}
	const open, end = `{"base64":"`, `"}`
	out := make([]byte, 0, len(open)+base64.StdEncoding.EncodedLen(len(b))+len(end))
	return append(base64.StdEncoding.AppendEncode(append(out, open...), b), end...), nil
}

func extismLog(level int32) func(*plugin, *visit, *sandbox.Guest, []uint64) {
	return func(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
		text := p.whole(v, g, "log", stack[0])
		v.say(g, level, len(text), func(keep int) []byte {
			g.Charge(keep)
			return abi.Clone(text[:keep])
		})
		p.free(stack[0])
	}
}
