package wasm

import "encoding/binary"

// countExactly returns the module with an exact instruction counter, as the reference for
// Meter. Before each instruction that can divert control, it adds the number of
// instructions executed since the last one. It shares only the costs of instructions with
// Meter. The counter is exported as "exact".
func countExactly(m *Module) *Module {
	out := *m
	counter := uint32(len(m.GlobalTypes()))
	out.Globals = append(append([]Global(nil), m.Globals...), Global{GlobalType{I64, true}, ConstExpr{Op: OpI64Const}})
	out.Exports = append(append([]Export(nil), m.Exports...), Export{"exact", ExternalGlobal, counter})
	out.Code = nil
	for i := range m.Code {
		c := &m.Code[i]
		temp := uint32(len(m.Types[m.Functions[i]].Params))
		for _, g := range c.Locals {
			temp += g.Count
		}
		out.Code = append(out.Code, Code{
			Locals: append(append([]Locals(nil), c.Locals...), Locals{2, I32}),
			Body:   exactBody(c, counter, temp),
		})
	}
	return &out
}

func exactBody(c *Code, counter, temp uint32) []byte {
	a := assembler{}
	run := 0
	flush := func() {
		if run > 0 {
			a.index(OpGlobalGet, counter)
			a.i64(int64(run))
			a.op(opI64Add)
			a.index(OpGlobalSet, counter)
			run = 0
		}
	}
	var in Instruction
	for it := c.Instructions(); it.Next(&in); {
		run += cost(in.Op)
		raw := c.Body[in.Start:in.End]
		switch in.Op {
		case OpBlock, OpLoop, OpIf, OpElse, OpEnd, OpBr, OpBrIf, OpBrTable, OpReturn, OpUnreachable, OpCall, OpCallIndirect:
			flush()
		case OpMemoryCopy, OpMemoryFill, OpMemoryInit:
			exactUnits(&a, counter, temp, raw, 4)
			continue
		case OpTableCopy, OpTableFill, OpTableInit:
			exactUnits(&a, counter, temp, raw, 1)
			continue
		case OpMemoryGrow, OpTableGrow:
			exactGrowth(&a, counter, temp, raw, in.Op)
			continue
		}
		a = append(a, raw...)
	}
	return a
}

// exactUnits appends raw, a bulk instruction, and code that adds its count, shifted right by shift,
// to the counter.
func exactUnits(a *assembler, counter, temp uint32, raw []byte, shift int32) {
	a.index(OpLocalTee, temp)
	*a = append(*a, raw...)
	a.index(OpGlobalGet, counter)
	a.get(temp)
	a.i32(shift)
	a.op(opI32ShrU)
	a.op(opI64ExtendI32)
	a.op(opI64Add)
	a.index(OpGlobalSet, counter)
}

// exactGrowth appends raw, an instruction that grows the memory or a table, and code that adds the
// cost of the growth to the counter if it succeeded.
func exactGrowth(a *assembler, counter, temp uint32, raw []byte, op Opcode) {
	a.index(OpLocalTee, temp)
	*a = append(*a, raw...)
	a.index(OpLocalTee, temp+1)
	a.i32(-1)
	a.op(0x47) // i32.ne
	a.block(OpIf, BlockType{})
	a.index(OpGlobalGet, counter)
	a.get(temp)
	a.op(opI64ExtendI32)
	a.i64(map[Opcode]int64{OpMemoryGrow: 12, OpTableGrow: 0}[op])
	a.op(opI64Shl)
	a.op(opI64Add)
	a.index(OpGlobalSet, counter)
	a.op(OpEnd)
	a.get(temp + 1)
}

// f64Bits appends the eight bytes of a float constant.
func f64Bits(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }
