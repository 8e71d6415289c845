package wasm

import (
	"fmt"
	"strings"
)

// Opcode is an instruction's code. An instruction with a prefix has the prefix in the upper byte
// and its number in the lower one: memory.copy is 0xfc0a.
type Opcode uint16

// The opcodes that this package and its callers refer to by name.
const (
	OpUnreachable  Opcode = 0x00
	OpNop          Opcode = 0x01
	OpBlock        Opcode = 0x02
	OpLoop         Opcode = 0x03
	OpIf           Opcode = 0x04
	OpElse         Opcode = 0x05
	OpEnd          Opcode = 0x0b
	OpBr           Opcode = 0x0c
	OpBrIf         Opcode = 0x0d
	OpBrTable      Opcode = 0x0e
	OpReturn       Opcode = 0x0f
	OpCall         Opcode = 0x10
	OpCallIndirect Opcode = 0x11
	OpLocalGet     Opcode = 0x20
	OpLocalSet     Opcode = 0x21
	OpLocalTee     Opcode = 0x22
	OpGlobalGet    Opcode = 0x23
	OpGlobalSet    Opcode = 0x24
	OpTableGet     Opcode = 0x25
	OpTableSet     Opcode = 0x26
	OpMemoryGrow   Opcode = 0x40
	OpI32Const     Opcode = 0x41
	OpI64Const     Opcode = 0x42
	OpF32Const     Opcode = 0x43
	OpF64Const     Opcode = 0x44
	OpRefNull      Opcode = 0xd0
	OpRefFunc      Opcode = 0xd2
	OpMemoryInit   Opcode = 0xfc08
	OpDataDrop     Opcode = 0xfc09
	OpMemoryCopy   Opcode = 0xfc0a
	OpMemoryFill   Opcode = 0xfc0b
	OpTableInit    Opcode = 0xfc0c
	OpElemDrop     Opcode = 0xfc0d
	OpTableCopy    Opcode = 0xfc0e
	OpTableGrow    Opcode = 0xfc0f
	OpTableSize    Opcode = 0xfc10
	OpTableFill    Opcode = 0xfc11
	OpV128Const    Opcode = 0xfd0c
)

const (
	prefixMisc   = 0xfc
	prefixVector = 0xfd
)

// String returns the instruction's name in the text format.
func (op Opcode) String() string {
	if o := op.info(); o.name != "" {
		return o.name
	}
	return fmt.Sprintf("opcode %#x", uint16(op))
}

func (op Opcode) info() operation {
	switch op >> 8 {
	case 0:
		return plain[op]
	case prefixMisc:
		if int(op&0xff) < len(misc) {
			return misc[op&0xff]
		}
	case prefixVector:
		return vector[op&0xff]
	}
	return operation{}
}

// immediate classifies the immediates of an opcode.
type immediate uint8

const (
	immNone       immediate = iota
	immBlock                // block type
	immLabel                // label
	immLabels               // labels and a default
	immFunction             // function
	immIndirect             // type, table
	immTypes                // value types, exactly one
	immLocal                // local
	immGlobal               // global
	immTable                // table
	immMemory               // memory
	immMemories             // memory, memory
	immAccess               // alignment, offset
	immI32                  // number
	immI64                  // number
	immF32                  // 4 bytes
	immF64                  // 8 bytes
	immRefType              // reference type
	immData                 // data segment
	immDataMemory           // data segment, memory
	immElem                 // element segment
	immElemTable            // element segment, table
	immTables               // table, table
	immV128                 // 16 bytes
	immShuffle              // 16 lanes below 32
	immLane                 // lane
	immAccessLane           // alignment, offset, lane
)

// operation describes an instruction: its name, its immediates, and for memory accesses
// the binary logarithm of the maximum alignment and, for lane accesses, the number of
// lanes. An empty name marks an opcode that does not exist.
type operation struct {
	name  string
	imm   immediate
	align uint8
	lanes uint8
}

var (
	plain  = plainOperations()
	misc   = miscOperations()
	vector = vectorOperations()
)

func plainOperations() (t [256]operation) {
	control := map[Opcode]operation{
		OpUnreachable: {name: "unreachable"}, OpNop: {name: "nop"},
		OpBlock: {name: "block", imm: immBlock}, OpLoop: {name: "loop", imm: immBlock},
		OpIf: {name: "if", imm: immBlock}, OpElse: {name: "else"}, OpEnd: {name: "end"},
		OpBr: {name: "br", imm: immLabel}, OpBrIf: {name: "br_if", imm: immLabel},
		OpBrTable: {name: "br_table", imm: immLabels}, OpReturn: {name: "return"},
		OpCall: {name: "call", imm: immFunction}, OpCallIndirect: {name: "call_indirect", imm: immIndirect},
		0x1a: {name: "drop"}, 0x1b: {name: "select"}, 0x1c: {name: "select", imm: immTypes},
		OpLocalGet: {name: "local.get", imm: immLocal}, OpLocalSet: {name: "local.set", imm: immLocal},
		OpLocalTee:  {name: "local.tee", imm: immLocal},
		OpGlobalGet: {name: "global.get", imm: immGlobal}, OpGlobalSet: {name: "global.set", imm: immGlobal},
		OpTableGet: {name: "table.get", imm: immTable}, OpTableSet: {name: "table.set", imm: immTable},
		0x3f: {name: "memory.size", imm: immMemory}, OpMemoryGrow: {name: "memory.grow", imm: immMemory},
		OpI32Const: {name: "i32.const", imm: immI32}, OpI64Const: {name: "i64.const", imm: immI64},
		OpF32Const: {name: "f32.const", imm: immF32}, OpF64Const: {name: "f64.const", imm: immF64},
		OpRefNull: {name: "ref.null", imm: immRefType}, 0xd1: {name: "ref.is_null"},
		OpRefFunc: {name: "ref.func", imm: immFunction},
	}
	for op, o := range control {
		t[op] = o
	}
	accesses(t[:], 0x28, `i32.load/2 i64.load/3 f32.load/2 f64.load/3
		i32.load8_s/0 i32.load8_u/0 i32.load16_s/1 i32.load16_u/1
		i64.load8_s/0 i64.load8_u/0 i64.load16_s/1 i64.load16_u/1 i64.load32_s/2 i64.load32_u/2
		i32.store/2 i64.store/3 f32.store/2 f64.store/3
		i32.store8/0 i32.store16/1 i64.store8/0 i64.store16/1 i64.store32/2`)
	names(t[:], 0x45, `i32.eqz i32.eq i32.ne i32.lt_s i32.lt_u i32.gt_s i32.gt_u i32.le_s i32.le_u i32.ge_s i32.ge_u
		i64.eqz i64.eq i64.ne i64.lt_s i64.lt_u i64.gt_s i64.gt_u i64.le_s i64.le_u i64.ge_s i64.ge_u
		f32.eq f32.ne f32.lt f32.gt f32.le f32.ge f64.eq f64.ne f64.lt f64.gt f64.le f64.ge
		i32.clz i32.ctz i32.popcnt i32.add i32.sub i32.mul i32.div_s i32.div_u i32.rem_s i32.rem_u
		i32.and i32.or i32.xor i32.shl i32.shr_s i32.shr_u i32.rotl i32.rotr
		i64.clz i64.ctz i64.popcnt i64.add i64.sub i64.mul i64.div_s i64.div_u i64.rem_s i64.rem_u
		i64.and i64.or i64.xor i64.shl i64.shr_s i64.shr_u i64.rotl i64.rotr
		f32.abs f32.neg f32.ceil f32.floor f32.trunc f32.nearest f32.sqrt
		f32.add f32.sub f32.mul f32.div f32.min f32.max f32.copysign
		f64.abs f64.neg f64.ceil f64.floor f64.trunc f64.nearest f64.sqrt
		f64.add f64.sub f64.mul f64.div f64.min f64.max f64.copysign
		i32.wrap_i64 i32.trunc_f32_s i32.trunc_f32_u i32.trunc_f64_s i32.trunc_f64_u
		i64.extend_i32_s i64.extend_i32_u i64.trunc_f32_s i64.trunc_f32_u i64.trunc_f64_s i64.trunc_f64_u
		f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s f32.convert_i64_u f32.demote_f64
		f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32
		i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64
		i32.extend8_s i32.extend16_s i64.extend8_s i64.extend16_s i64.extend32_s`)
	return t
}

func miscOperations() (t [18]operation) {
	names(t[:], 0, `i32.trunc_sat_f32_s i32.trunc_sat_f32_u i32.trunc_sat_f64_s i32.trunc_sat_f64_u
		i64.trunc_sat_f32_s i64.trunc_sat_f32_u i64.trunc_sat_f64_s i64.trunc_sat_f64_u
		memory.init data.drop memory.copy memory.fill
		table.init elem.drop table.copy table.grow table.size table.fill`)
	for i, imm := range []immediate{
		immDataMemory, immData, immMemories, immMemory,
		immElemTable, immElem, immTables, immTable, immTable, immTable,
	} {
		t[8+i].imm = imm
	}
	return t
}

func vectorOperations() (t [256]operation) {
	accesses(
		t[:],
		0x00,
		`v128.load/4 v128.load8x8_s/3 v128.load8x8_u/3 v128.load16x4_s/3 v128.load16x4_u/3 v128.load32x2_s/3 v128.load32x2_u/3
		v128.load8_splat/0 v128.load16_splat/1 v128.load32_splat/2 v128.load64_splat/3 v128.store/4`,
	)
	names(t[:], 0x0c, `v128.const i8x16.shuffle i8x16.swizzle
		i8x16.splat i16x8.splat i32x4.splat i64x2.splat f32x4.splat f64x2.splat
		i8x16.extract_lane_s i8x16.extract_lane_u i8x16.replace_lane
		i16x8.extract_lane_s i16x8.extract_lane_u i16x8.replace_lane
		i32x4.extract_lane i32x4.replace_lane i64x2.extract_lane i64x2.replace_lane
		f32x4.extract_lane f32x4.replace_lane f64x2.extract_lane f64x2.replace_lane
		i8x16.eq i8x16.ne i8x16.lt_s i8x16.lt_u i8x16.gt_s i8x16.gt_u i8x16.le_s i8x16.le_u i8x16.ge_s i8x16.ge_u
		i16x8.eq i16x8.ne i16x8.lt_s i16x8.lt_u i16x8.gt_s i16x8.gt_u i16x8.le_s i16x8.le_u i16x8.ge_s i16x8.ge_u
		i32x4.eq i32x4.ne i32x4.lt_s i32x4.lt_u i32x4.gt_s i32x4.gt_u i32x4.le_s i32x4.le_u i32x4.ge_s i32x4.ge_u
		f32x4.eq f32x4.ne f32x4.lt f32x4.gt f32x4.le f32x4.ge f64x2.eq f64x2.ne f64x2.lt f64x2.gt f64x2.le f64x2.ge
		v128.not v128.and v128.andnot v128.or v128.xor v128.bitselect v128.any_true`)
	t[0x0c].imm, t[0x0d].imm = immV128, immShuffle
	for first, lanes := range map[int][3]uint8{
		0x15: {3, 16}, 0x18: {3, 8}, 0x1b: {2, 4}, 0x1d: {2, 2}, 0x1f: {2, 4}, 0x21: {2, 2},
	} {
		for i := range int(lanes[0]) {
			t[first+i].imm, t[first+i].lanes = immLane, lanes[1]
		}
	}
	accesses(t[:], 0x54, `v128.load8_lane/0 v128.load16_lane/1 v128.load32_lane/2 v128.load64_lane/3
		v128.store8_lane/0 v128.store16_lane/1 v128.store32_lane/2 v128.store64_lane/3 v128.load32_zero/2 v128.load64_zero/3`)
	for i := range 8 {
		t[0x54+i].imm, t[0x54+i].lanes = immAccessLane, 16>>(i%4)
	}
	names(t[:], 0x5e, `f32x4.demote_f64x2_zero f64x2.promote_low_f32x4
		i8x16.abs i8x16.neg i8x16.popcnt i8x16.all_true i8x16.bitmask i8x16.narrow_i16x8_s i8x16.narrow_i16x8_u
		f32x4.ceil f32x4.floor f32x4.trunc f32x4.nearest
		i8x16.shl i8x16.shr_s i8x16.shr_u i8x16.add i8x16.add_sat_s i8x16.add_sat_u i8x16.sub i8x16.sub_sat_s i8x16.sub_sat_u
		f64x2.ceil f64x2.floor i8x16.min_s i8x16.min_u i8x16.max_s i8x16.max_u f64x2.trunc i8x16.avgr_u
		i16x8.extadd_pairwise_i8x16_s i16x8.extadd_pairwise_i8x16_u
		i32x4.extadd_pairwise_i16x8_s i32x4.extadd_pairwise_i16x8_u
		i16x8.abs i16x8.neg i16x8.q15mulr_sat_s i16x8.all_true i16x8.bitmask i16x8.narrow_i32x4_s i16x8.narrow_i32x4_u
		i16x8.extend_low_i8x16_s i16x8.extend_high_i8x16_s i16x8.extend_low_i8x16_u i16x8.extend_high_i8x16_u
		i16x8.shl i16x8.shr_s i16x8.shr_u i16x8.add i16x8.add_sat_s i16x8.add_sat_u i16x8.sub i16x8.sub_sat_s i16x8.sub_sat_u
		f64x2.nearest i16x8.mul i16x8.min_s i16x8.min_u i16x8.max_s i16x8.max_u - i16x8.avgr_u
		i16x8.extmul_low_i8x16_s i16x8.extmul_high_i8x16_s i16x8.extmul_low_i8x16_u i16x8.extmul_high_i8x16_u
		i32x4.abs i32x4.neg - i32x4.all_true i32x4.bitmask - -
		i32x4.extend_low_i16x8_s i32x4.extend_high_i16x8_s i32x4.extend_low_i16x8_u i32x4.extend_high_i16x8_u
		i32x4.shl i32x4.shr_s i32x4.shr_u i32x4.add - - i32x4.sub - - -
		i32x4.mul i32x4.min_s i32x4.min_u i32x4.max_s i32x4.max_u
		i32x4.dot_i16x8_s -
		i32x4.extmul_low_i16x8_s i32x4.extmul_high_i16x8_s i32x4.extmul_low_i16x8_u i32x4.extmul_high_i16x8_u
		i64x2.abs i64x2.neg - i64x2.all_true i64x2.bitmask - -
		i64x2.extend_low_i32x4_s i64x2.extend_high_i32x4_s i64x2.extend_low_i32x4_u i64x2.extend_high_i32x4_u
		i64x2.shl i64x2.shr_s i64x2.shr_u i64x2.add - - i64x2.sub - - - i64x2.mul
		i64x2.eq i64x2.ne i64x2.lt_s i64x2.gt_s i64x2.le_s i64x2.ge_s
		i64x2.extmul_low_i32x4_s i64x2.extmul_high_i32x4_s i64x2.extmul_low_i32x4_u i64x2.extmul_high_i32x4_u
		f32x4.abs f32x4.neg - f32x4.sqrt f32x4.add f32x4.sub f32x4.mul f32x4.div f32x4.min f32x4.max f32x4.pmin f32x4.pmax
		f64x2.abs f64x2.neg - f64x2.sqrt f64x2.add f64x2.sub f64x2.mul f64x2.div f64x2.min f64x2.max f64x2.pmin f64x2.pmax
		i32x4.trunc_sat_f32x4_s i32x4.trunc_sat_f32x4_u f32x4.convert_i32x4_s f32x4.convert_i32x4_u
		i32x4.trunc_sat_f64x2_s_zero i32x4.trunc_sat_f64x2_u_zero f64x2.convert_low_i32x4_s f64x2.convert_low_i32x4_u`)
	return t
}

// names sets the elements of t from first on to the operations without immediates whose names are
// in list. It leaves out an element for the name "-".
func names(t []operation, first int, list string) {
	for i, name := range strings.Fields(list) {
		if name != "-" {
			t[first+i] = operation{name: name}
		}
	}
}

// accesses fills a table with memory accesses, which have an alignment and an offset. list
// contains, for each instruction, its name, a slash, and the binary logarithm of its maximum
// alignment.
func accesses(t []operation, first int, list string) {
	for i, field := range strings.Fields(list) {
		name, align, _ := strings.Cut(field, "/")
		t[first+i] = operation{name: name, imm: immAccess, align: align[0] - '0'}
	}
}

// featureOfOpcode returns the name of the proposal outside of WebAssembly 2.0 that
// defines an opcode, or "" if none does. sub is the number after a prefix.
func featureOfOpcode(op byte, sub uint32) string {
	switch {
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		return "exception handling"
	case op == 0x12, op == 0x13:
		return "tail calls"
	case op == 0x14, op == 0x15, op >= 0xd4 && op <= 0xd6:
		return "typed function references"
	case op == 0xd3, op == 0xfb:
		return "garbage collection"
	case op == 0xfe:
		return "threads"
	case op == prefixVector && sub >= 0x100:
		return "relaxed vector instructions"
	case op == prefixMisc && sub == 18:
		return "memory control"
	case op == prefixMisc && sub >= 19 && sub <= 22:
		return "wide arithmetic"
	default:
		return ""
	}
}
