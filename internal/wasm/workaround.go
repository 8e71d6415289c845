package wasm

import "math"

// wazero 1.12.0's compiler for amd64 miscompiles these instructions. Meter replaces them.
//
// It translates a select between vectors or floats to a conditional move, but wrongly
// considers the destination's old value dead. The result is then sometimes whatever the
// register held before: a wrong and random value, possibly another tenant's. The
// replacement for vectors is a mask:
//
// 	select  =>  i32.eqz; i32.const 1; i32.sub; i32x4.splat; (v128.bitselect)
//
// and for floats a select between their bits:
//
// 	select  =>  local.set $c; i64.reinterpret_f64; local.set $y
// 	            i64.reinterpret_f64; local.get $y; local.get $c; select
// 	            f64.reinterpret_i64
//
// For v128.bitselect, copysign and unsigned conversions, the compiler modifies an intermediate
// value in its register and then uses another operand. If that operand was spilled, the reload can
// take the same register, since the register allocator prefers certain registers even while others
// are free. The intermediate value is then restored from a copy that was made before the
// modification. A conversion moreover branches around such reloads. The replacements modify one
// value per instruction and do not branch:
//
// 	v128.bitselect  =>  local.tee $c; v128.andnot; local.set $y
// 	                    local.get $c; v128.and; local.get $y; v128.or
// 	f64.copysign    =>  i64.reinterpret_f64; i64.const MIN; i64.and; local.set $y
// 	                    i64.reinterpret_f64; i64.const MAX; i64.and
// 	                    local.get $y; i64.or; f64.reinterpret_i64
// 	f64.convert_i64_u: halve a number of 64 bits, rounding to odd, and double the result
// 	                =>  local.tee $x; i64.const 63; i64.shr_u; local.set $y
// 	                    local.get $x; local.get $y; i64.shr_u
// 	                    local.get $x; local.get $y; i64.and; i64.or; f64.convert_i64_s
// 	                    local.get $y; i64.const 1; i64.add; f64.convert_i64_s; f64.mul
//
// The compiler loses intermediate values of other vector instructions, too, but only if all
// registers are in use: i8x16.popcnt, i64x2.mul, the shifts of i8x16, and the minimum and
// maximum of floats. The result is a wrong value of the module itself.
//
// A replacement costs the same fuel as the instruction. None contains blocks, because the
// compile time of blocks is superlinear.

// workaround finds and replaces the miscompiled instructions of one body.
type workaround struct {
	operands
	scratch uint32 // index of the first added local
	used    bool   // whether the added locals are needed
}

// workaroundLocals are the added locals: the condition, the bits of the second value of each float
// type, the number to convert, and for bitselect the mask and an intermediate value.
var workaroundLocals = []Locals{{2, I32}, {2, I64}, {2, V128}}

func (x *workaround) begin(t FuncType, c *Code) {
	x.operands.begin(t, c)
	x.scratch, x.used = uint32(len(x.locals)), false
}

// miscompiled returns the result type of the next instruction if the instruction must be
// replaced, and 0 otherwise.
func (o *operands) miscompiled(in *Instruction) ValueType {
	switch in.Op {
	case opSelect, opSelectTyped:
		switch t := o.selected(in); t {
		case F32, F64, V128:
			return t
		}
	case opF32Copysign, opF32ConvertI64U:
		return F32
	case opF64Copysign, opF64ConvertI64U:
		return F64
	case opV128Bitselect:
		return V128
	}
	return 0
}

// replace advances over an instruction. If the instruction must be replaced, replace appends
// the replacement and returns true.
func (x *workaround) replace(a *assembler, in *Instruction) bool {
	t := x.miscompiled(in)
	x.step(in)
	if t == 0 {
		return false
	}
	x.used = true
	switch in.Op {
	case opV128Bitselect:
		x.bitselect(a)
	case opF32Copysign, opF64Copysign:
		x.copysign(a, t)
	case opF32ConvertI64U:
		x.convert(a, opF32ConvertI64S, opF32Mul)
	case opF64ConvertI64U:
		x.convert(a, opF64ConvertI64S, opF64Mul)
	default:
		x.sel(a, t)
	}
	return true
}

// sel appends the replacement of a select between values of type t.
func (x *workaround) sel(a *assembler, t ValueType) {
	if t == V128 {
		a.op(opI32Eqz)
		a.i32(1)
		a.op(opI32Sub)
		a.op(opI32x4Splat)
		x.bitselect(a)
		return
	}
	toBits, fromBits, second := x.bits(t)
	a.index(OpLocalSet, x.scratch)
	a.op(toBits)
	a.index(OpLocalSet, second)
	a.op(toBits)
	a.get(second, x.scratch)
	a.op(opSelect)
	a.op(fromBits)
}

func (x *workaround) bitselect(a *assembler) {
	mask, second := x.scratch+4, x.scratch+5
	a.index(OpLocalTee, mask)
	a.op(opV128AndNot)
	a.index(OpLocalSet, second)
	a.get(mask)
	a.op(opV128And)
	a.get(second)
	a.op(opV128Or)
}

func (x *workaround) copysign(a *assembler, t ValueType) {
	toBits, fromBits, second := x.bits(t)
	and, or := opI32And, opI32Or
	if t == F64 {
		and, or = opI64And, opI64Or
	}
	mask := func(v32 int32, v64 int64) {
		a.op(toBits)
		if t == F64 {
			a.i64(v64)
		} else {
			a.i32(v32)
		}
		a.op(and)
	}
	mask(math.MinInt32, math.MinInt64)
	a.index(OpLocalSet, second)
	mask(math.MaxInt32, math.MaxInt64)
	a.get(second)
	a.op(or)
	a.op(fromBits)
}

// convert appends the replacement of an unsigned conversion. signed is the signed conversion, and
// mul is the multiplication of the result type.
func (x *workaround) convert(a *assembler, signed, mul Opcode) {
	top, number := x.scratch+2, x.scratch+3
	a.index(OpLocalTee, number)
	a.i64(63)
	a.op(opI64ShrU)
	a.index(OpLocalSet, top)
	a.get(number, top)
	a.op(opI64ShrU)
	a.get(number, top)
	a.op(opI64And)
	a.op(opI64Or)
	a.op(signed)
	a.get(top)
	a.i64(1)
	a.op(opI64Add)
	a.op(signed)
	a.op(mul)
}

// bits returns the conversions between a float type and its bits, and the local for the
// bits of a second value.
func (x *workaround) bits(t ValueType) (toBits, fromBits Opcode, second uint32) {
	if t == F32 {
		return opI32ReinterpretF32, opF32ReinterpretI32, x.scratch + 1
	}
	return opI64ReinterpretF64, opF64ReinterpretI64, x.scratch + 2
}
