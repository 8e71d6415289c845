package differential

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

var valueTypes = []wasm.ValueType{wasm.I32, wasm.I64, wasm.F32, wasm.F64, wasm.V128}

const (
	functions   = 6
	pages       = 2
	maxPages    = 6
	tableSize   = 16
	passiveData = 300
)

// A statement is code that does not change the height of the stack, with nested statements. A
// program without one of its statements is still valid.
type statement struct {
	open, end []byte
	inside    []*statement
}

func (s *statement) appendTo(b []byte) []byte {
	b = append(b, s.open...)
	for _, in := range s.inside {
		b = in.appendTo(b)
	}
	return append(b, s.end...)
}

// A function is a generated function, with statements that are not encoded yet.
type function struct {
	typ    wasm.FuncType
	locals []wasm.Locals
	body   []*statement
	result []byte
}

// A Program is a generated module with its arguments and fuel.
type Program struct {
	Seed      uint64
	Args      [][]uint64 // arguments of each call; call i calls function i modulo the number of functions
	Budget    int64      // fuel of all calls together
	Slice     int64      // fuel granted in one slice
	functions []*function
	module    wasm.Module
}

// Module returns the program's module, built from the current statements of its functions.
func (p *Program) Module() *wasm.Module {
	m := p.module
	m.Code = nil
	for _, f := range p.functions {
		var body []byte
		for _, s := range f.body {
			body = s.appendTo(body)
		}
		m.Code = append(m.Code, wasm.Code{Locals: f.locals, Body: append(append(body, f.result...), byte(wasm.OpEnd))})
	}
	return &m
}

// Generate returns the program for a seed.
func Generate(seed uint64) *Program {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0xd1ff)), p: &Program{Seed: seed}}
	g.types()
	g.outside()
	for i := range functions {
		g.p.functions = append(g.p.functions, g.function(i))
	}
	// A third of the programs get so little fuel that most of them run out of it.
	g.p.Budget, g.p.Slice = 3_000_000, int64(1+g.IntN(5000))
	if g.IntN(3) == 0 {
		g.p.Budget = int64(g.IntN(3000))
	}
	for i := range 2 * functions {
		var args []uint64
		for _, t := range g.p.module.Types[g.p.module.Functions[i%functions]].Params {
			args = append(args, g.bits(t))
		}
		g.p.Args = append(g.p.Args, args)
	}
	return g.p
}

// A generator makes the random choices of [Generate] and has the state of the current function.
type generator struct {
	*rand.Rand
	p       *Program
	fn      int
	typ     wasm.FuncType
	locals  []wasm.ValueType
	counter uint32 // the local of the next loop
	scratch map[wasm.ValueType]uint32
	labels  []wasm.ValueType // type of the value that a branch to each label passes, 0 if none; innermost last
	loops   []bool           // whether each label is a loop
	left    int              // number of instructions left for the function
}

func (g *generator) someType() wasm.ValueType { return valueTypes[g.IntN(len(valueTypes))] }

// types generates the types of the functions. They contain no vectors, so that the host can call
// all functions.
func (g *generator) types() {
	for range functions {
		var t wasm.FuncType
		for range g.IntN(4) {
			t.Params = append(t.Params, valueTypes[g.IntN(4)])
		}
		for range g.IntN(4) {
			t.Results = append(t.Results, valueTypes[g.IntN(4)])
		}
		g.p.module.Types = append(g.p.module.Types, t)
	}
}

// outside generates the module without its code.
func (g *generator) outside() {
	m := &g.p.module
	m.Memories = []wasm.Memory{{Size: wasm.Range{Min: pages, Max: maxPages, HasMax: true}}}
	m.Tables = []wasm.Table{{Type: wasm.FuncRef, Size: wasm.Range{Min: tableSize, Max: 2 * tableSize, HasMax: true}}}
	m.Exports = []wasm.Export{{Name: "memory", Kind: wasm.ExternalMemory}}
	for i := range functions {
		m.Functions = append(m.Functions, uint32(i))
		m.Exports = append(m.Exports, wasm.Export{Name: string(rune('a' + i)), Index: uint32(i)})
	}
	for _, t := range valueTypes {
		m.Globals = append(m.Globals, wasm.Global{GlobalType: wasm.GlobalType{Type: t, Mutable: true}, Init: wasm.ConstExpr{
			Op: map[wasm.ValueType]wasm.Opcode{
				wasm.I32: wasm.OpI32Const, wasm.I64: wasm.OpI64Const, wasm.F32: wasm.OpF32Const, wasm.F64: wasm.OpF64Const,
				wasm.V128: wasm.OpV128Const,
			}[t],
			Bits: g.bits(t)}})
	}
	var list []uint32
	for range tableSize - 4 {
		list = append(list, uint32(g.IntN(functions)))
	}
	m.Elements = []wasm.Element{
		{Type: wasm.FuncRef, Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: 2}, Functions: list},
		{Mode: wasm.Passive, Type: wasm.FuncRef, Functions: list[:5]},
	}
	data := make([]byte, passiveData)
	for i := range data {
		data[i] = byte(g.Uint32())
	}
	m.Data = []wasm.Data{
		{Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: 256}, Init: data},
		{Mode: wasm.Passive, Init: data},
	}
	m.HasDataCount = true
}

// bits returns the bits of a constant, often a boundary value.
func (g *generator) bits(t wasm.ValueType) uint64 {
	small := uint64(g.IntN(20))
	switch t {
	case wasm.I32:
		return uint64(
			uint32(
				[]uint64{
					small, -small, 1 << 31, 1<<31 - 1, uint64(g.Uint32()), uint64(g.Uint32()) >> g.IntN(32), 0xff, 0x8000,
				}[g.IntN(8)],
			),
		)
	case wasm.I64:
		return []uint64{
			small, -small, 1 << 63, 1<<63 - 1, g.Uint64(), g.Uint64() >> g.IntN(64), 1 << 31, 1<<32 - 1,
		}[g.IntN(8)]
	case wasm.F32:
		return uint64(
			math.Float32bits(
				[]float32{
					0, float32(math.Copysign(0, -1)), float32(small) / 2, -1e10, float32(math.Inf(1)), float32(math.NaN()), 1 << 31,
					math.SmallestNonzeroFloat32, float32(g.NormFloat64()), math.MaxFloat32,
				}[g.IntN(10)],
			),
		)
	case wasm.F64:
		return math.Float64bits(
			[]float64{
				0, math.Copysign(0, -1), float64(small) / 2, -1e20, math.Inf(-1), math.NaN(), 1 << 63, math.SmallestNonzeroFloat64,
				g.NormFloat64(), math.MaxFloat64,
			}[g.IntN(10)],
		)
	default:
		return g.Uint64()
	}
}

// function generates function i.
func (g *generator) function(i int) *function {
	typ := g.p.module.Types[g.p.module.Functions[i]]
	f := &function{typ: typ}
	g.fn, g.typ, g.left, g.labels, g.loops = i, typ, 60+g.IntN(400), nil, nil
	g.locals = slices.Clone(typ.Params)
	declare := func(t wasm.ValueType) uint32 {
		f.locals = append(f.locals, wasm.Locals{Count: 1, Type: t})
		g.locals = append(g.locals, t)
		return uint32(len(g.locals) - 1)
	}
	for _, t := range valueTypes {
		declare(t)
		declare(t)
	}
	scratch := map[wasm.ValueType]uint32{}
	usable := len(g.locals)
	for _, t := range valueTypes {
		scratch[t] = declare(t)
	}
	g.scratch, g.counter = scratch, declare(wasm.I32)
	for range 7 {
		declare(wasm.I32)
	}
	g.locals = g.locals[:usable] // the locals after usable are for the generator's own code
	f.body = g.statements(0)
	for _, t := range typ.Results {
		f.result = append(f.result, g.value(t, 1)...)
	}
	return f
}

func (g *generator) statements(depth int) (list []*statement) {
	for range 1 + g.IntN(6) {
		if g.left--; g.left < 0 {
			break
		}
		list = append(list, g.statement(depth))
	}
	return list
}

func code(parts ...[]byte) []byte          { return slices.Concat(parts...) }
func leaf(parts ...[]byte) *statement      { return &statement{open: code(parts...)} }
func op(o wasm.Opcode, n ...uint32) []byte { return indices(opcode(o), n...) }
func indices(b []byte, n ...uint32) []byte {
	for _, i := range n {
		b = binary.AppendUvarint(b, uint64(i))
	}
	return b
}

func opcode(o wasm.Opcode) []byte {
	if o < 0x100 {
		return []byte{byte(o)}
	}
	return binary.AppendUvarint([]byte{byte(o >> 8)}, uint64(o&0xff))
}

func signed(b []byte, n int64) []byte {
	for ; n < -64 || n > 63; n >>= 7 {
		b = append(b, byte(n)&0x7f|0x80)
	}
	return append(b, byte(n)&0x7f)
}

func i32(n int32) []byte { return signed([]byte{byte(wasm.OpI32Const)}, int64(n)) }

const (
	opDrop      wasm.Opcode = 0x1a
	opSelect    wasm.Opcode = 0x1b
	opTableGet  wasm.Opcode = 0x25
	opTableSize wasm.Opcode = 0xfc10
	opI32And    wasm.Opcode = 0x71
	opI32Or     wasm.Opcode = 0x72
	opI64Or     wasm.Opcode = 0x84
	opI32Add    wasm.Opcode = 0x6a
	opI32LtU    wasm.Opcode = 0x49
	opMemSize   wasm.Opcode = 0x3f
	opBitselect wasm.Opcode = 0xfd52
	opShuffle   wasm.Opcode = 0xfd0d
	noResult                = 0x40
)

var or = map[wasm.ValueType]wasm.Opcode{wasm.I32: opI32Or, wasm.I64: opI64Or}

// statement generates one random statement. If depth is above 4, it generates only assignments.
func (g *generator) statement(depth int) *statement {
	if depth > 4 {
		return g.set(depth)
	}
	switch g.IntN(20) {
	case 0, 1, 2, 3:
		return g.set(depth)
	case 4, 5, 6:
		return g.store(depth)
	case 7, 8:
		return g.conditional(depth)
	case 9, 10:
		return g.loop(depth)
	case 11:
		return g.block(depth)
	case 12:
		return g.branch(depth)
	case 13, 14:
		return leaf(g.bulk(depth))
	case 15:
		return leaf(g.tables(depth))
	case 16, 17:
		return leaf(g.call(depth))
	case 18:
		return leaf(g.value(wasm.I32, depth+1), op(wasm.OpMemoryGrow, 0), op(opDrop))
	default:
		if g.IntN(4) == 0 && depth > 0 {
			return leaf(g.results(depth), op(wasm.OpReturn))
		}
		t := g.someType()
		return leaf(g.value(t, depth+1), op(opDrop))
	}
}

// set generates the assignment of a local or a global.
func (g *generator) set(depth int) *statement {
	if g.IntN(3) == 0 {
		i := g.IntN(len(valueTypes))
		return leaf(g.value(valueTypes[i], depth+1), op(wasm.OpGlobalSet, uint32(i)))
	}
	i := g.IntN(len(g.locals))
	return leaf(g.value(g.locals[i], depth+1), op(wasm.OpLocalSet, uint32(i)))
}

// inside generates the statements of a block or loop. back reports whether its label is that of a
// loop.
func (g *generator) inside(depth int, back bool) []*statement {
	g.labels, g.loops = append(g.labels, 0), append(g.loops, back)
	defer func() { g.labels, g.loops = g.labels[:len(g.labels)-1], g.loops[:len(g.loops)-1] }()
	return g.statements(depth + 1)
}

func (g *generator) conditional(depth int) *statement {
	open := code(g.value(wasm.I32, depth+1), []byte{byte(wasm.OpIf), noResult})
	if g.IntN(2) == 0 {
		return &statement{open: open, inside: g.inside(depth, false), end: op(wasm.OpEnd)}
	}
	then := &statement{inside: g.inside(depth, false)}
	other := &statement{open: op(wasm.OpElse), inside: g.inside(depth, false)}
	return &statement{open: open, inside: []*statement{then, other}, end: op(wasm.OpEnd)}
}

// loop generates a loop of a few iterations, with its own counter.
func (g *generator) loop(depth int) *statement {
	counter := g.counter
	g.counter++
	defer func() { g.counter-- }()
	times := i32(int32(1 + g.IntN(12)))
	inside := g.inside(depth, true)
	return &statement{
		open:   code(i32(0), op(wasm.OpLocalSet, counter), []byte{byte(wasm.OpLoop), noResult}),
		inside: inside,
		end: code(op(wasm.OpLocalGet, counter), i32(1), op(opI32Add), op(wasm.OpLocalTee, counter), times, op(opI32LtU),
			op(wasm.OpBrIf, 0), op(wasm.OpEnd)),
	}
}

func (g *generator) block(depth int) *statement {
	return &statement{open: []byte{byte(wasm.OpBlock), noResult}, inside: g.inside(depth, false), end: op(wasm.OpEnd)}
}

// forward returns the labels that branches can target without looping and without carrying a value.
func (g *generator) forward() (list []uint32) {
	for i, back := range g.loops {
		if !back && g.labels[i] == 0 {
			list = append(list, uint32(len(g.loops)-1-i))
		}
	}
	return list
}

// branch generates a branch out of blocks, by a condition or a table.
func (g *generator) branch(depth int) *statement {
	list := g.forward()
	if len(list) == 0 {
		return g.set(depth)
	}
	to := func() uint32 { return list[g.IntN(len(list))] }
	if g.IntN(3) > 0 {
		return leaf(g.value(wasm.I32, depth+1), op(wasm.OpBrIf, to()))
	}
	labels := []uint32{uint32(g.IntN(5))}
	for range labels[0] {
		labels = append(labels, to())
	}
	// The br_table is in a block, because the code after it is unreachable.
	for i := range labels[1:] {
		labels[i+1]++
	}
	return leaf(
		[]byte{byte(wasm.OpBlock), noResult},
		g.value(wasm.I32, depth+1),
		i32(7),
		op(opI32And),
		op(wasm.OpBrTable, append(labels, 0)...),
		op(wasm.OpEnd),
	)
}

// bulk generates an instruction that fills, copies or initializes memory, or drops data.
func (g *generator) bulk(depth int) []byte {
	switch g.IntN(8) {
	case 0, 1, 2:
		return code(g.address(depth), g.value(wasm.I32, depth+1), g.length(depth), op(wasm.OpMemoryFill, 0))
	case 3, 4, 5:
		return code(g.address(depth), g.address(depth), g.length(depth), op(wasm.OpMemoryCopy, 0, 0))
	case 6:
		return code(g.address(depth), i32(int32(g.IntN(passiveData))), i32(int32(g.IntN(20))), op(wasm.OpMemoryInit, 1, 0))
	default:
		if g.IntN(4) > 0 {
			return g.bulk(depth)
		}
		return op(wasm.OpDataDrop, 1)
	}
}

// entry generates a table index, usually within the table.
func (g *generator) entry(depth int) []byte {
	if g.IntN(40) == 0 {
		return g.value(wasm.I32, depth+1)
	}
	return code(g.value(wasm.I32, depth+2), i32(tableSize-1), op(opI32And))
}

// tables generates an instruction that changes the table.
func (g *generator) tables(depth int) []byte {
	switch g.IntN(6) {
	case 0:
		return code(g.entry(depth), g.entry(depth), op(opTableGet, 0), op(wasm.OpTableSet, 0))
	case 1:
		return code(g.entry(depth), op(wasm.OpRefFunc, uint32(g.IntN(functions))), op(wasm.OpTableSet, 0))
	case 2:
		return code(i32(int32(g.IntN(8))), i32(int32(g.IntN(8))), i32(int32(g.IntN(8))), op(wasm.OpTableCopy, 0, 0))
	case 3:
		return code(i32(int32(g.IntN(12))), i32(int32(g.IntN(4))), i32(int32(g.IntN(3))), op(wasm.OpTableInit, 1, 0))
	case 4:
		return code(
			op(wasm.OpRefFunc, uint32(g.IntN(functions))),
			i32(int32(g.IntN(9))),
			op(wasm.OpTableGrow, 0),
			op(wasm.OpGlobalSet, 0),
		)
	default:
		return code(
			i32(int32(g.IntN(12))),
			op(wasm.OpRefFunc, uint32(g.IntN(functions))),
			i32(int32(g.IntN(4))),
			op(wasm.OpTableFill, 0),
		)
	}
}

// call generates a direct call of a later function, or an indirect call of any function, and
// stores the results in globals.
func (g *generator) call(depth int) []byte {
	f := g.fn + 1 + g.IntN(functions)
	indirect := f >= functions || g.IntN(4) == 0
	if f >= functions {
		f = g.IntN(functions)
	}
	typ := g.p.module.Types[f]
	var b []byte
	for _, t := range typ.Params {
		b = append(b, g.value(t, depth+1)...)
	}
	if indirect {
		// Indirect calls are rare, because most of them trap: most entries have another type.
		if g.IntN(4) > 0 {
			return code(i32(1), op(opDrop))
		}
		b = append(b, code(g.entry(depth+1), op(wasm.OpCallIndirect, uint32(f), 0))...)
	} else {
		b = append(b, op(wasm.OpCall, uint32(f))...)
	}
	for _, t := range slices.Backward(typ.Results) {
		b = append(b, op(wasm.OpGlobalSet, uint32(slices.Index(valueTypes, t)))...)
	}
	return b
}

func (g *generator) results(depth int) (b []byte) {
	for _, t := range g.typ.Results {
		b = append(b, g.value(t, depth+1)...)
	}
	return b
}
