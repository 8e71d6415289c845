package wasm

// wazero 1.12.0's compiler for amd64 makes a conditional move of a select between
// vectors or floats, and takes the value that the move may leave as it is for
// one that is not needed. What is selected then is, now and then, whatever a
// register held before: wrong, another one each time, and somebody else's. So
// such a select is written with instructions that do not go that way. For
// vectors that is a mask:
//
//	select  =>  i32.eqz; i32.const 1; i32.sub; i32x4.splat; v128.bitselect
//
// and for floats a select between their bits:
//
//	select  =>  local.set $c; i64.reinterpret_f64; local.set $y
//	            i64.reinterpret_f64; local.get $y; local.get $c; select
//	            f64.reinterpret_i64
//
// Either counts as the one instruction that the select is. There is no block in
// them: those cost a compiler more than linear time.

// chooser finds them in one body, and writes what stands for them.
type chooser struct {
	operands
	scratch uint32 // the first of the locals that are added
	used    bool   // they are needed
}

// chooserLocals are the locals that are added: the condition, and the bits of
// the second value.
var chooserLocals = []Locals{{2, I32}, {1, I64}}

func (x *chooser) begin(t FuncType, c *Code) {
	x.operands.begin(t, c)
	x.scratch, x.used = uint32(len(x.locals)), false
}

// next follows an instruction. If it is a select to be replaced, next returns
// the type of what it selects, otherwise 0.
func (x *chooser) next(in *Instruction) ValueType {
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

// write writes what stands for a select between values of a type.
func (x *chooser) write(a *assembler, t ValueType) {
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

func (x *chooser) bits(a *assembler, second uint32, to, from Opcode) {
	x.used = true
	a.index(OpLocalSet, x.scratch)
	a.op(to)
	a.index(OpLocalSet, second)
	a.op(to)
	a.get(second, x.scratch)
	a.op(opSelect)
	a.op(from)
}
