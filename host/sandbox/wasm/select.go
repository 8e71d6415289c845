package wasm

// wazero 1.12.0's compiler for amd64 translates a select between vectors or floats to a
// conditional move, but wrongly considers the destination's old value dead. The result is
// then sometimes whatever the register held before: a wrong and random value, possibly
// another tenant's. Therefore Meter rewrites such selects with other instructions. For
// vectors it uses a mask:
//
// 	select  =>  i32.eqz; i32.const 1; i32.sub; i32x4.splat; v128.bitselect
//
// and for floats a select between their bits:
//
// 	select  =>  local.set $c; i64.reinterpret_f64; local.set $y
// 	            i64.reinterpret_f64; local.get $y; local.get $c; select
// 	            f64.reinterpret_i64
//
// Either costs the same fuel as the select. Neither contains blocks, because the compile
// time of blocks is superlinear.

// selectRewriter finds and replaces these selects in one body.
type selectRewriter struct {
	operands
	scratch uint32 // index of the first added local
	used    bool   // whether the added locals are needed
}

// selectLocals are the added locals: the condition, and the bits of the second value.
var selectLocals = []Locals{{2, I32}, {1, I64}}

func (x *selectRewriter) begin(t FuncType, c *Code) {
	x.operands.begin(t, c)
	x.scratch, x.used = uint32(len(x.locals)), false
}

// next advances over an instruction. It returns the operand type of a select that must be
// replaced, and 0 for other instructions.
func (x *selectRewriter) next(in *Instruction) ValueType {
	t := ValueType(0)
	if in.Op == opSelect || in.Op == opSelectTyped {
		t = x.selected(in)
	}
	x.step(in)
	switch t {
	case F32, F64, V128:
		return t
	}
	return 0
}

// write appends the replacement of a select between values of type t.
func (x *selectRewriter) write(a *assembler, t ValueType) {
	switch t {
	case V128:
		a.op(opI32Eqz)
		a.i32(1)
		a.op(opI32Sub)
		a.op(opI32x4Splat)
		a.op(opV128Bitselect)
	case F32:
		x.bits(a, x.scratch+1, opI32ReinterpretF32, opF32ReinterpretI32)
	default:
		x.bits(a, x.scratch+2, opI64ReinterpretF64, opF64ReinterpretI64)
	}
}

func (x *selectRewriter) bits(a *assembler, second uint32, to, from Opcode) {
	x.used = true
	a.index(OpLocalSet, x.scratch)
	a.op(to)
	a.index(OpLocalSet, second)
	a.op(to)
	a.get(second, x.scratch)
	a.op(opSelect)
	a.op(from)
}
