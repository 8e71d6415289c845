package differential

import (
	"strings"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// An operation is an instruction that takes one or more values and returns one.
type operation struct {
	name      string
	op        wasm.Opcode
	params    []wasm.ValueType
	result    wasm.ValueType
	lanes     int  // number of lanes if the instruction accesses a lane; otherwise 0
	inexact   bool // whether the result may be a NaN, whose bits may differ
	divides   bool // whether the instruction traps if the second operand is 0
	truncates bool // whether the instruction traps if the operand does not fit
	orders    bool // whether the instruction is an ordering comparison of integers, such as i32.lt_s
}

// operations lists all numeric instructions by result type.
var operations = allOperations()

func allOperations() map[wasm.ValueType][]operation {
	out := map[wasm.ValueType][]operation{}
	add := func(op wasm.Opcode) {
		if o, ok := operationOf(op); ok {
			out[o.result] = append(out[o.result], o)
		}
	}
	for op := wasm.Opcode(0x45); op <= 0xc4; op++ {
		add(op)
	}
	for op := wasm.Opcode(0xfc00); op <= 0xfc07; op++ {
		add(op)
	}
	for op := wasm.Opcode(0xfd0e); op <= 0xfdff; op++ {
		add(op)
	}
	return out
}

var scalars = map[string]wasm.ValueType{"i32": wasm.I32, "i64": wasm.I64, "f32": wasm.F32, "f64": wasm.F64}

// operationOf derives an instruction's operands and result from its name, such as i64.extend_i32_s.
// ok is false if the name has another form.
func operationOf(op wasm.Opcode) (o operation, ok bool) {
	of, name, ok := strings.Cut(op.String(), ".")
	if !ok {
		return o, false
	}
	o = operation{name: op.String(), op: op}
	if t, ok := scalars[of]; ok {
		return o.scalar(t, name), true
	}
	return o.vector(of, name)
}

func has(name string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// scalar returns o with the types and properties of an instruction on numbers of type t.
func (o operation) scalar(t wasm.ValueType, name string) operation {
	isFloat := t == wasm.F32 || t == wasm.F64
	o.result, o.params = t, []wasm.ValueType{t, t}
	if i := strings.IndexByte(name, '_'); i >= 0 { // trunc_sat_f32_s takes an f32
		for _, part := range strings.Split(name[i+1:], "_") {
			if from, ok := scalars[part]; ok {
				o.params = []wasm.ValueType{from}
				o.inexact = isFloat && !has(name, "reinterpret")
				o.truncates = has(name, "trunc_f")
				return o
			}
		}
	}
	switch {
	case name == "eqz":
		o.result, o.params = wasm.I32, o.params[:1]
	case name == "eq", name == "ne", has(name, "lt", "gt", "le", "ge"):
		o.result = wasm.I32
		o.orders = !isFloat && name != "eq" && name != "ne"
	case has(name, "clz", "ctz", "popcnt", "abs", "neg", "ceil", "floor", "trunc", "nearest", "sqrt", "extend"):
		o.params = o.params[:1]
		o.inexact = isFloat && !has(name, "abs", "neg")
	default:
		o.inexact = isFloat && name != "copysign"
		o.divides = !isFloat && has(name, "div", "rem")
	}
	return o
}

// vector returns o with the types and properties of a vector instruction. It reports false for
// instructions that the generator writes itself.
func (o operation) vector(of, name string) (operation, bool) {
	v := wasm.V128
	lane := map[string]wasm.ValueType{
		"i8x16": wasm.I32, "i16x8": wasm.I32, "i32x4": wasm.I32, "i64x2": wasm.I64, "f32x4": wasm.F32, "f64x2": wasm.F64,
	}[of]
	lanes := map[string]int{"i8x16": 16, "i16x8": 8, "i32x4": 4, "i64x2": 2, "f32x4": 4, "f64x2": 2}[of]
	isFloat := has(of, "f")
	o.result, o.params = v, []wasm.ValueType{v, v}
	switch {
	case has(name, "load", "store", "const", "shuffle"):
		return o, false // other code of the generator uses these
	case name == "splat":
		o.params = []wasm.ValueType{lane}
	case has(name, "extract_lane"):
		o.result, o.params, o.lanes = lane, o.params[:1], lanes
	case has(name, "replace_lane"):
		o.params, o.lanes = []wasm.ValueType{v, lane}, lanes
	case has(name, "shl", "shr"):
		o.params = []wasm.ValueType{v, wasm.I32}
	case has(name, "all_true", "any_true", "bitmask"):
		o.result, o.params = wasm.I32, o.params[:1]
	case name == "bitselect":
		o.params = []wasm.ValueType{v, v, v}
	case name == "neg" || name == "abs" || name == "not" ||
		has(name, "popcnt", "ceil", "floor", "trunc", "sqrt", "extend", "extadd", "convert", "demote", "promote"),
		name == "nearest":
		o.params = o.params[:1]
		o.inexact = isFloat && !has(name, "neg", "abs")
	default:
		o.inexact = isFloat && has(name, "add", "sub", "mul", "div", "min", "max")
	}
	return o, true
}
