package wasm

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// generator makes valid modules that terminate: each function call and each loop
// iteration decrements a global, "budget", and traps when it is zero. Floats are never
// stored, so that the compared numbers are the same on every machine.
type generator struct {
	*rand.Rand
	m      *Module
	a      assembler
	locals []ValueType
	labels [][]ValueType // types of the values of each open label, the innermost label last
	fn     int
	left   int // remaining instructions for this function
}

const (
	genBudget    = 0 // index of the global "budget"
	genFunctions = 6
	genPages     = 24
)

var genNumbers = []ValueType{I32, I64, F32, F64, V128}

// generate returns the module for a seed.
func generate(seed uint64) *Module {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), m: &Module{}}
	m := g.m
	for range 8 {
		m.Types = append(m.Types, FuncType{g.someTypes(genNumbers, 3), g.someTypes(genNumbers, 3)})
	}
	m.Types = append(m.Types, FuncType{}, FuncType{Results: []ValueType{I64, I32}})
	m.Memories = []Memory{{Range{Min: genPages - 4, Max: genPages, HasMax: true}}}
	m.Tables = []Table{{FuncRef, Range{Min: 12, Max: 16, HasMax: true}}, {FuncRef, Range{Min: 40_000}}}
	m.Globals = []Global{{GlobalType{I32, true}, ConstExpr{Op: OpI32Const, Bits: 300}}}
	for _, t := range genNumbers {
		m.Globals = append(m.Globals, Global{GlobalType{t, true}, ConstExpr{Op: map[ValueType]Opcode{
			I32: OpI32Const, I64: OpI64Const, F32: OpF32Const, F64: OpF64Const, V128: OpV128Const,
		}[t], Bits: uint64(g.IntN(100))}})
	}
	m.Exports = []Export{{"memory", ExternalMemory, 0}, {"budget", ExternalGlobal, genBudget}}
	for i := range genFunctions {
		m.Functions = append(m.Functions, uint32(g.IntN(len(m.Types))))
		m.Exports = append(m.Exports, Export{fmt.Sprint("f", i), ExternalFunction, uint32(i)})
	}
	for i := range genNumbers {
		if genNumbers[i] != V128 {
			m.Exports = append(m.Exports, Export{fmt.Sprint("g", i), ExternalGlobal, uint32(i + 1)})
		}
	}
	m.Elements = []Element{
		{Type: FuncRef, Offset: ConstExpr{Op: OpI32Const, Bits: 1}, Functions: []uint32{0, 1, 2, 3, 4, 5, 5, 4}},
		{Mode: Passive, Type: FuncRef, Functions: []uint32{2, 3}},
		{Mode: Passive, Type: FuncRef, Exprs: []ConstExpr{{Op: OpRefNull, Bits: uint64(FuncRef)}, {Op: OpRefFunc, Bits: 1}}},
	}
	large := make([]byte, 1<<19)
	for i := range large {
		large[i] = byte(i * 7 >> 3)
	}
	m.Data = []Data{
		{Offset: ConstExpr{Op: OpI32Const, Bits: 100}, Init: []byte("hello, world")},
		{Mode: Passive, Init: []byte("passive")},
		{Mode: Passive, Init: large},
	}
	m.HasDataCount = true
	for i := range genFunctions {
		m.Code = append(m.Code, g.function(i))
	}
	return m
}

func (g *generator) someTypes(of []ValueType, limit int) []ValueType {
	types := make([]ValueType, g.IntN(limit+1))
	for i := range types {
		types[i] = g.one(of)
	}
	return types
}

func (g *generator) one(of []ValueType) ValueType { return of[g.IntN(len(of))] }

func (g *generator) function(i int) Code {
	t := g.m.Types[g.m.Functions[i]]
	g.a, g.fn, g.left = nil, i, 40+g.IntN(300)
	c := Code{}
	g.locals = append([]ValueType(nil), t.Params...)
	for _, v := range append(genNumbers, g.someTypes(genNumbers, 6)...) {
		c.Locals = append(c.Locals, Locals{1, v})
		g.locals = append(g.locals, v)
	}
	g.labels = [][]ValueType{t.Results}
	g.spend()
	g.statements(0)
	g.values(t.Results, 0)
	g.a.op(OpEnd)
	c.Body = g.a
	return c
}

// spend generates code that traps if the budget is 0, and decrements the budget otherwise.
func (g *generator) spend() {
	g.a.index(OpGlobalGet, genBudget)
	g.a.op(0x45) // i32.eqz
	g.a.block(OpIf, BlockType{})
	g.a.op(OpUnreachable)
	g.a.op(OpEnd)
	g.a.index(OpGlobalGet, genBudget)
	g.a.i32(1)
	g.a.op(opI32Sub)
	g.a.index(OpGlobalSet, genBudget)
}

func (g *generator) statements(depth int) {
	for range 1 + g.IntN(5) {
		if g.left--; g.left < 0 {
			return
		}
		g.statement(depth)
	}
}

func (g *generator) statement(depth int) {
	if depth > 6 {
		g.set()
		return
	}
	switch g.IntN(17) {
	case 0, 1, 2:
		g.set()
	case 3:
		g.store(depth)
	case 4:
		g.value(I32, depth+1)
		g.a.block(OpIf, BlockType{})
		g.inside(nil, func() { g.statements(depth + 1) })
		if g.IntN(2) == 0 {
			g.a.op(OpElse)
			g.inside(nil, func() { g.statements(depth + 1) })
		}
		g.a.op(OpEnd)
	case 5:
		g.loop(depth)
	case 6:
		g.a.block(OpBlock, BlockType{})
		g.inside(nil, func() { g.statements(depth + 1) })
		g.a.op(OpEnd)
	case 7:
		g.leave(depth)
	case 8, 9:
		g.branchIf(depth)
	case 10:
		g.resume(depth)
	case 11, 12:
		g.bulk(depth)
	case 13:
		g.call(depth)
	case 14:
		g.multiBlock(depth)
	case 15:
		g.dispatch(depth)
	default:
		g.a.op(OpNop)
		g.value(g.one(genNumbers), depth+1)
		g.a.op(0x1a) // drop
	}
}

func (g *generator) inside(label []ValueType, f func()) {
	g.labels = append(g.labels, label)
	f()
	g.labels = g.labels[:len(g.labels)-1]
}

func (g *generator) set() {
	if g.IntN(3) == 0 {
		i := 1 + g.IntN(len(genNumbers))
		g.value(genNumbers[i-1], 5)
		g.a.index(OpGlobalSet, uint32(i))
		return
	}
	l := g.IntN(len(g.locals))
	g.value(g.locals[l], 3)
	g.a.index(OpLocalSet, uint32(l))
}

func (g *generator) store(depth int) {
	g.address(depth)
	switch g.IntN(4) {
	case 0:
		g.value(I32, depth+1)
		g.a = append(g.a, 0x36, 2, 16)
	case 1:
		g.value(I64, depth+1)
		g.a = append(g.a, 0x37, 3, 0)
	case 2:
		g.value(I32, depth+1)
		g.a = append(g.a, 0x3a, 0, 1)
	default:
		g.value(V128, depth+1)
		g.a = append(g.a, 0xfd, 0x0b, 4, 0)
	}
}

// address generates code that pushes an address, which is sometimes out of bounds.
func (g *generator) address(depth int) {
	g.value(I32, depth+1)
	if g.IntN(20) > 0 {
		g.a.i32(0xfffff)
		g.a.op(0x71) // i32.and
	}
}

func (g *generator) loop(depth int) {
	if g.IntN(2) == 0 {
		g.a.block(OpLoop, BlockType{})
		g.inside(nil, func() {
			g.spend()
			g.statements(depth + 1)
			g.value(I32, depth+1)
			g.a.index(OpBrIf, 0)
		})
		g.a.op(OpEnd)
		return
	}
	// Generate a loop with parameters, which each iteration passes on.
	i := g.IntN(len(g.m.Types))
	t := g.m.Types[i]
	g.values(t.Params, depth+1)
	g.a.block(OpLoop, BlockType{Index: uint32(i), HasIndex: true})
	g.inside(t.Params, func() {
		g.dropAll(t.Params)
		g.spend()
		g.statements(depth + 1)
		g.values(t.Params, depth+1)
		g.value(I32, depth+1)
		g.a.index(OpBrIf, 0)
		g.dropAll(t.Params)
		g.values(t.Results, depth+1)
	})
	g.a.op(OpEnd)
	g.dropAll(t.Results)
}

// dropAll generates code that pops values, some of them into locals.
func (g *generator) dropAll(types []ValueType) {
	for i := len(types) - 1; i >= 0; i-- {
		l := g.IntN(len(g.locals))
		if g.locals[l] == types[i] {
			g.a.index(OpLocalSet, uint32(l))
		} else {
			g.a.op(0x1a)
		}
	}
}

func (g *generator) multiBlock(depth int) {
	i := g.IntN(len(g.m.Types))
	t := g.m.Types[i]
	g.values(t.Params, depth+1)
	g.a.block(OpBlock, BlockType{Index: uint32(i), HasIndex: true})
	g.inside(t.Results, func() {
		g.dropAll(t.Params)
		g.statements(depth + 1)
		g.values(t.Results, depth+1)
	})
	g.a.op(OpEnd)
	g.dropAll(t.Results)
}

// leave generates code that, under a condition, branches to a label, returns or traps.
func (g *generator) leave(depth int) {
	g.value(I32, depth+1)
	g.a.block(OpIf, BlockType{})
	g.inside(nil, func() {
		switch label := g.IntN(len(g.labels)); g.IntN(4) {
		case 0:
			g.values(g.labels[0], depth+1)
			g.a.op(OpReturn)
		case 1:
			g.a.op(OpUnreachable)
		default:
			g.values(g.labels[len(g.labels)-1-label], depth+1)
			g.a.index(OpBr, uint32(label))
		}
		if g.IntN(2) == 0 { // unreachable code
			g.a.block(OpLoop, BlockType{})
			g.inside(nil, func() { g.statements(depth + 2) })
			g.a.op(OpEnd)
		}
	})
	g.a.op(OpEnd)
}

func (g *generator) branchIf(depth int) {
	label := g.IntN(len(g.labels))
	types := g.labels[len(g.labels)-1-label]
	g.values(types, depth+1)
	g.value(I32, depth+1)
	g.a.index(OpBrIf, uint32(label))
	g.dropAll(types)
}

// resume generates the shape of a Go function: a loop around a br_table into nested blocks, after
// each of which the code falls through, leaves another block or continues the loop.
func (g *generator) resume(depth int) {
	n := 1 + g.IntN(6)
	g.a.block(OpLoop, BlockType{})
	g.inside(nil, func() {
		g.spend()
		for range n {
			g.a.block(OpBlock, BlockType{})
			g.labels = append(g.labels, nil)
		}
		g.value(I32, depth+1)
		g.a.index(OpBrTable, uint32(n-1))
		for i := range n {
			g.a = append(g.a, byte(g.IntN(i+1)))
		}
		for i := range n {
			g.a.op(OpEnd)
			g.labels = g.labels[:len(g.labels)-1]
			g.statements(depth + 2)
			if g.IntN(3) == 0 {
				g.a.index(OpBr, uint32(g.IntN(n-i)))
			}
		}
	})
	g.a.op(OpEnd)
}

// dispatch generates a body in the style of Go's compiler: a loop whose head only branches to the
// block that a local selects. Jumps set the local and branch to the loop.
func (g *generator) dispatch(depth int) {
	n := 1 + g.IntN(6)
	local := uint32(slices.Index(g.locals, I32))
	if g.IntN(2) == 0 {
		g.a.i32(int32(g.IntN(n)))
		g.a.index(OpLocalSet, local)
	}
	g.a.block(OpLoop, BlockType{})
	g.labels = append(g.labels, nil)
	for range n {
		g.a.block(OpBlock, BlockType{})
		g.labels = append(g.labels, nil)
	}
	g.a.get(local)
	g.a.index(OpBrTable, uint32(n))
	for range n + 1 {
		g.a = append(g.a, byte(g.IntN(n)))
	}
	for i := range n {
		g.a.op(OpEnd)
		g.labels = g.labels[:len(g.labels)-1]
		g.spend()
		g.statements(depth + 2)
		for range g.IntN(3) {
			g.value(I32, depth+2)
			g.a.block(OpIf, BlockType{})
			g.jump(local, uint32(n-i), n)
			g.a.op(OpEnd)
		}
		if g.IntN(4) == 0 {
			g.jump(local, uint32(n-1-i), n)
		}
	}
	g.a.op(OpEnd)
	g.labels = g.labels[:len(g.labels)-1]
}

// jump generates code that sets the local of a loop, usually to a constant, and branches to the
// loop.
func (g *generator) jump(local, loop uint32, n int) {
	if g.IntN(8) > 0 {
		g.a.i32(int32(g.IntN(n + 2)))
	} else {
		g.leaf(I32)
	}
	g.a.index(OpLocalSet, local)
	g.a.index(OpBr, loop)
}

func (g *generator) bulk(depth int) {
	length := func() {
		if g.IntN(3) == 0 {
			g.a.i32(int32(g.IntN(1 << 20)))
			return
		}
		g.value(I32, depth+1)
		g.a.i32(0xfff)
		g.a.op(0x71)
	}
	small := func(n int) { g.a.i32(int32(g.IntN(n))) }
	switch g.IntN(10) {
	case 0, 1:
		g.address(depth)
		g.address(depth)
		length()
		g.a.index(OpMemoryCopy, 0, 0)
	case 2:
		g.address(depth)
		g.value(I32, depth+1)
		length()
		g.a.index(OpMemoryFill, 0)
	case 3:
		g.address(depth)
		small(1 << 19)
		small(1 << 19)
		g.a.index(OpMemoryInit, 2, 0)
	case 4:
		g.address(depth)
		small(8)
		small(8)
		g.a.index(OpMemoryInit, 1, 0)
	case 5:
		small(14)
		small(3)
		small(3)
		g.a.index(OpTableInit, uint32(1+g.IntN(2)), 0)
	case 6:
		small(41_000)
		small(41_000)
		small(40_000)
		g.a.index(OpTableCopy, 1, 1)
	case 7:
		small(14)
		g.a.index(OpRefFunc, uint32(g.IntN(genFunctions)))
		small(6)
		g.a.index(OpTableFill, 0)
	case 8:
		small(2000)
		g.a = append(g.a, 0xd0, 0x70)
		small(40_000)
		g.a.index(OpTableFill, 1)
	default:
		switch g.IntN(4) {
		case 0:
			g.a.index(OpDataDrop, uint32(1+g.IntN(2)))
		case 1:
			g.a.index(OpElemDrop, uint32(1+g.IntN(2)))
		case 2:
			g.a = append(g.a, 0xd0, 0x70)
			small(4)
			g.a.index(OpTableGrow, 0)
			g.a.op(0x1a)
		default:
			small(4)
			g.a.index(OpMemoryGrow, 0)
			g.a.op(0x1a)
		}
	}
}

func (g *generator) call(depth int) {
	if g.IntN(3) == 0 {
		i := g.IntN(len(g.m.Types))
		g.values(g.m.Types[i].Params, depth+1)
		g.a.i32(int32(g.IntN(14)))
		g.a.index(OpCallIndirect, uint32(i), 0)
		g.dropAll(g.m.Types[i].Results)
		return
	}
	f := g.IntN(genFunctions)
	t := g.m.Types[g.m.Functions[f]]
	g.values(t.Params, depth+1)
	g.a.index(OpCall, uint32(f))
	g.dropAll(t.Results)
}

func (g *generator) values(types []ValueType, depth int) {
	for _, t := range types {
		g.value(t, depth)
	}
}

// value generates code that pushes a value of type t.
func (g *generator) value(t ValueType, depth int) {
	if g.left--; g.left < 0 || depth > 5 || g.IntN(4) == 0 {
		g.leaf(t)
		return
	}
	switch g.IntN(7) {
	case 0:
		g.leaf(t)
	case 1:
		g.a.block(OpBlock, BlockType{Result: t})
		g.inside([]ValueType{t}, func() {
			g.value(t, depth+1)
			g.value(I32, depth+1)
			g.a.index(OpBrIf, 0)
		})
		g.a.op(OpEnd)
	case 2:
		g.value(I32, depth+1)
		g.a.block(OpIf, BlockType{Result: t})
		g.inside([]ValueType{t}, func() { g.value(t, depth+1) })
		g.a.op(OpElse)
		g.inside([]ValueType{t}, func() { g.value(t, depth+1) })
		g.a.op(OpEnd)
	case 3:
		g.value(t, depth+1)
		g.value(t, depth+1)
		g.value(I32, depth+1)
		g.a = append(g.a, 0x1c, 1, byte(t))
	default:
		g.operation(t, depth+1)
	}
}

func (g *generator) leaf(t ValueType) {
	if g.IntN(2) == 0 {
		for i, l := range g.locals {
			if l == t && g.IntN(3) > 0 {
				g.a.index(OpLocalGet, uint32(i))
				return
			}
		}
	}
	n := uint64(g.IntN(1000))
	switch t {
	case I32:
		g.a.i32(int32(g.Uint32()) >> g.IntN(32))
	case I64:
		g.a.i64(int64(g.Uint64()) >> g.IntN(64))
	case F32:
		g.a.i32(int32(n))
		g.a.op(0xb2) // f32.convert_i32_s
	case F64:
		g.a = f64Bits(append(g.a, byte(OpF64Const)), 0x4000000000000000+n<<40)
	default:
		g.a.op(OpV128Const)
		g.a = f64Bits(f64Bits(g.a, g.Uint64()), n)
	}
}

// genOperation is an instruction and its operand types.
type genOperation struct {
	takes []ValueType
	code  []byte
}

func genBinary(t ValueType, codes ...byte) (all []genOperation) {
	for _, c := range codes {
		all = append(all, genOperation{[]ValueType{t, t}, []byte{c}})
	}
	return all
}

// genArithmetic returns the opcodes of the 14 operations from add to rotr, except "and". add is the
// opcode of the first. wazero 1.12.0's compilers mistake 0 < (a & b) for (a & b) < 0 in a branch
// condition. The result is at least deterministic, and Go, C and Rust compilers generate other
// code, so Meter does not work around it.
func genArithmetic(add byte) []byte {
	return append(genCodes(7, add), genCodes(7, add+8)...)
}

func genCodes(n byte, from byte) (codes []byte) {
	for i := range n {
		codes = append(codes, from+i)
	}
	return codes
}

var genOperations = map[ValueType][]genOperation{
	I32: append(
		append(
			append(genBinary(I32, genArithmetic(0x6a)...), genBinary(I64, genCodes(10, 0x51)...)...),
			genBinary(F64, 0x61, 0x63)...),
		genOperation{[]ValueType{I32}, []byte{0x45}},
		genOperation{[]ValueType{I64}, []byte{0xa7}},
		genOperation{[]ValueType{F32}, []byte{0xa8}},
		genOperation{[]ValueType{F64}, []byte{0xfc, 2}},
		genOperation{[]ValueType{I32}, []byte{0xc0}},
		genOperation{nil, []byte{0x3f, 0}},
		genOperation{[]ValueType{V128}, []byte{0xfd, 0x1b, 3}},
		genOperation{[]ValueType{V128}, []byte{0xfd, 0x53}},
		genOperation{nil, []byte{0x41, 0, 0x28, 2, 0x80, 0x10}},
	),
	I64: append(genBinary(I64, genArithmetic(0x7c)...),
		genOperation{[]ValueType{I32}, []byte{0xac}}, genOperation{[]ValueType{F64}, []byte{0xfc, 6}},
		genOperation{[]ValueType{V128}, []byte{0xfd, 0x1d, 1}}, genOperation{nil, []byte{0x41, 8, 0x29, 3, 16}}),
	F32: append(
		genBinary(F32, 0x92, 0x93, 0x94),
		genOperation{[]ValueType{I32}, []byte{0xb2}},
		genOperation{[]ValueType{F64}, []byte{0xb6}},
	),
	F64: append(
		genBinary(F64, 0xa0, 0xa1, 0xa2, 0xa3),
		genOperation{[]ValueType{I64}, []byte{0xb9}},
		genOperation{[]ValueType{F32}, []byte{0xbb}},
	),
	V128: {
		{[]ValueType{V128, V128}, []byte{0xfd, 0xae, 1}}, {[]ValueType{V128, V128}, []byte{0xfd, 0x6e}},
		{[]ValueType{V128, V128}, []byte{0xfd, 0x51}}, {[]ValueType{I32}, []byte{0xfd, 0x11}},
		{[]ValueType{V128, I32}, []byte{0xfd, 0x1c, 2}}, {nil, []byte{0x41, 0, 0xfd, 0, 4, 0x80, 2}},
		{[]ValueType{V128, V128}, []byte{0xfd, 0x0d, 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31}},
	},
}

func (g *generator) operation(t ValueType, depth int) {
	all := genOperations[t]
	o := all[g.IntN(len(all))]
	g.values(o.takes, depth)
	g.a = append(g.a, o.code...)
}
