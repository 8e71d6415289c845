package differential

import (
	"encoding/binary"
	"slices"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// value generates code that leaves a value of a type on the stack.
func (g *generator) value(t wasm.ValueType, depth int) []byte {
	if g.left--; depth > 5 || g.left < 0 {
		return g.leaf(t)
	}
	switch g.IntN(12) {
	case 0, 1, 2:
		return g.leaf(t)
	case 3, 4:
		return g.load(t, depth)
	case 5:
		return code(g.value(t, depth+1), g.value(t, depth+1), g.value(wasm.I32, depth+1), op(opSelect))
	case 6:
		// br_if leaves the branch's value on the stack if it does not branch.
		return code(
			[]byte{byte(wasm.OpBlock), byte(t)},
			g.value(t, depth+1),
			g.value(wasm.I32, depth+2),
			op(wasm.OpBrIf, 0),
			op(wasm.OpEnd),
		)
	case 7:
		return code(
			g.value(wasm.I32, depth+1),
			[]byte{byte(wasm.OpIf), byte(t)},
			g.value(t, depth+1),
			op(wasm.OpElse),
			g.value(t, depth+1),
			op(wasm.OpEnd),
		)
	default:
		return g.operation(t, depth)
	}
}

// leaf generates a constant, or a read of a local, a global or a size.
func (g *generator) leaf(t wasm.ValueType) []byte {
	switch g.IntN(8) {
	case 0:
		return op(wasm.OpGlobalGet, uint32(slices.Index(valueTypes, t)))
	case 1:
		if t == wasm.I32 {
			return [][]byte{op(opMemSize, 0), op(opTableSize, 0)}[g.IntN(2)]
		}
	case 2, 3:
		return g.constant(t, g.bits(t))
	}
	for {
		if i := g.IntN(len(g.locals)); g.locals[i] == t {
			return op(wasm.OpLocalGet, uint32(i))
		}
	}
}

func (g *generator) constant(t wasm.ValueType, bits uint64) []byte {
	switch t {
	case wasm.I32:
		return i32(int32(bits))
	case wasm.I64:
		return signed([]byte{byte(wasm.OpI64Const)}, int64(bits))
	case wasm.F32:
		return binary.LittleEndian.AppendUint32([]byte{byte(wasm.OpF32Const)}, uint32(bits))
	case wasm.F64:
		return binary.LittleEndian.AppendUint64([]byte{byte(wasm.OpF64Const)}, bits)
	default:
		return vector(bits, g.Uint64())
	}
}

func vector(low, high uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(opcode(wasm.OpV128Const), low), high)
}

// operation generates a numeric instruction with a result of type t, and its operands.
func (g *generator) operation(t wasm.ValueType, depth int) []byte {
	if t == wasm.V128 && g.IntN(30) == 0 {
		b := code(g.value(t, depth+1), g.value(t, depth+1), opcode(opShuffle))
		for range 16 {
			b = append(b, byte(g.IntN(32)))
		}
		return b
	}
	o := operations[t][g.IntN(len(operations[t]))]
	if o.truncates && g.IntN(8) > 0 { // the instruction would mostly trap
		return g.operation(t, depth)
	}
	var b []byte
	for _, from := range o.params {
		b = append(b, g.value(from, depth+1)...)
	}
	if o.orders { // avoid the fault in the package comment: no comparison with the result of and
		b = append(b, code(g.constant(o.params[1], 0), op(or[o.params[1]]))...)
	}
	if o.divides && g.IntN(16) > 0 {
		b = append(b, g.constant(t, 1)...)
		b = append(b, op(or[t])...)
	}
	b = append(b, opcode(o.op)...)
	if o.lanes > 0 {
		b = append(b, byte(g.IntN(o.lanes)))
	}
	if o.inexact {
		b = append(b, g.canonical(o)...)
	}
	return b
}

// canonical generates code that replaces a NaN, or the lanes that are NaN, with the canonical NaN.
func (g *generator) canonical(o operation) []byte {
	x := g.scratch[o.result]
	get := op(wasm.OpLocalGet, x)
	switch {
	case o.result == wasm.F32:
		return code(op(wasm.OpLocalTee, x), g.constant(wasm.F32, 0x7fc00000), get, get, op(0x5b), op(opSelect))
	case o.result == wasm.F64:
		return code(op(wasm.OpLocalTee, x), g.constant(wasm.F64, 0x7ff8000000000000), get, get, op(0x61), op(opSelect))
	case has(o.name, "f32x4"):
		return code(
			op(wasm.OpLocalTee, x),
			vector(0x7fc000007fc00000, 0x7fc000007fc00000),
			get,
			get,
			opcode(0xfd41),
			opcode(opBitselect),
		)
	default:
		return code(
			op(wasm.OpLocalTee, x),
			vector(0x7ff8000000000000, 0x7ff8000000000000),
			get,
			get,
			opcode(0xfd47),
			opcode(opBitselect),
		)
	}
}
