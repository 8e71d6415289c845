package differential

import (
	"slices"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// An access is an instruction that loads or stores a type, with its maximum alignment and, if it
// accesses a lane, the number of lanes.
type access struct {
	op    wasm.Opcode
	typ   wasm.ValueType
	align uint32
	lanes int
}

var loads, stores = allAccesses()

func allAccesses() (loads, stores []access) {
	of := func(first wasm.Opcode, t wasm.ValueType, aligns ...uint32) (list []access) {
		for i, a := range aligns {
			list = append(list, access{op: first + wasm.Opcode(i), typ: t, align: a})
		}
		return list
	}
	loads = slices.Concat(of(0x28, wasm.I32, 2), of(0x29, wasm.I64, 3), of(0x2a, wasm.F32, 2), of(0x2b, wasm.F64, 3),
		of(0x2c, wasm.I32, 0, 0, 1, 1), of(0x30, wasm.I64, 0, 0, 1, 1, 2, 2),
		of(0xfd00, wasm.V128, 4, 3, 3, 3, 3, 3, 3, 0, 1, 2, 3), of(0xfd5c, wasm.V128, 2, 3))
	stores = slices.Concat(of(0x36, wasm.I32, 2), of(0x37, wasm.I64, 3), of(0x38, wasm.F32, 2), of(0x39, wasm.F64, 3),
		of(0x3a, wasm.I32, 0, 1), of(0x3c, wasm.I64, 0, 1, 2), of(0xfd0b, wasm.V128, 4))
	for i := range 4 {
		stores = append(stores, access{wasm.Opcode(0xfd58 + i), wasm.V128, uint32(i), 16 >> i})
	}
	return loads, stores
}

// at generates the instruction of an access with random immediates.
func (g *generator) at(a access) []byte {
	offset := uint32([]int{0, 1, 8, g.IntN(1 << 12)}[g.IntN(4)])
	if g.IntN(200) == 0 {
		offset = g.Uint32()
	}
	b := op(a.op, uint32(g.IntN(int(a.align)+1)), offset)
	if a.lanes > 0 {
		b = append(b, byte(g.IntN(a.lanes)))
	}
	return b
}

// address generates an address, usually within the memory.
func (g *generator) address(depth int) []byte {
	if g.IntN(40) == 0 {
		return g.value(wasm.I32, depth+1)
	}
	return code(g.value(wasm.I32, depth+2), i32(0xffff), op(opI32And))
}

// length generates a length, usually a small one.
func (g *generator) length(depth int) []byte {
	if g.IntN(60) == 0 {
		return g.value(wasm.I32, depth+1)
	}
	return code(g.value(wasm.I32, depth+2), i32([]int32{7, 63, 1023}[g.IntN(3)]), op(opI32And))
}

func (g *generator) store(depth int) *statement {
	a := stores[g.IntN(len(stores))]
	return leaf(g.address(depth+1), g.value(a.typ, depth+1), g.at(a))
}

func (g *generator) load(t wasm.ValueType, depth int) []byte {
	for {
		if a := loads[g.IntN(len(loads))]; a.typ == t {
			return code(g.address(depth+1), g.at(a))
		}
	}
}
