package wasm

import "strings"

// effect is the effect of an instruction on the operand stack: the number of values that
// it pops, and the type of the value that it pushes, or 0 for none.
type effect struct {
	takes  int8
	leaves ValueType
}

var (
	plainEffects  = effectsOf(plain[:])
	miscEffects   = effectsOf(misc[:])
	vectorEffects = effectsOf(vector[:])
)

// effectsOf derives the effects of a table's instructions from their names. operands.step
// handles those that depend on an immediate.
func effectsOf(table []operation) []effect {
	effects := make([]effect, len(table))
	for i, o := range table {
		prefix, name, ok := strings.Cut(o.name, ".")
		if !ok {
			continue
		}
		switch prefix {
		case "memory", "table", "data", "elem":
			effects[i] = effectOnState[o.name]
		case "local", "global", "ref":
		default:
			effects[i] = effect{operandCount(name), resultType(prefix, name)}
		}
	}
	return effects
}

// effectOnState has the effects on the operand stack of instructions that access memory, tables or
// segments. Instructions without such an effect, like data.drop, are missing. The result of table.get
// is missing too, because it depends on the table.
var effectOnState = map[string]effect{
	"memory.size": {0, I32}, "memory.grow": {1, I32}, "table.size": {0, I32}, "table.grow": {2, I32},
	"memory.init": {3, 0}, "memory.copy": {3, 0}, "memory.fill": {3, 0},
	"table.init": {3, 0}, "table.copy": {3, 0}, "table.fill": {3, 0},
	"table.get": {1, 0}, "table.set": {2, 0},
}

// operandCount returns the number of operands of the instruction called name, without its
// type prefix.
func operandCount(name string) int8 {
	word, _, _ := strings.Cut(name, "_")
	switch {
	case name == "const":
		return 0
	case strings.HasPrefix(name, "store"), strings.HasSuffix(name, "_lane") && word != "extract":
		return 2
	case name == "bitselect":
		return 3
	case strings.HasPrefix(name, "load"):
		return 1
	}
	switch strings.TrimRight(word, "0123456789") {
	case "eqz", "clz", "ctz", "popcnt", "abs", "neg", "ceil", "floor", "trunc", "nearest", "sqrt", "not",
		"wrap", "extend", "convert", "demote", "promote", "reinterpret", "extadd",
		"splat", "any", "all", "bitmask", "extract":
		return 1
	}
	return 2
}

// resultType returns the result type of the instruction called prefix.name, such as i32.add, or 0
// if it has no result.
func resultType(prefix, name string) ValueType {
	lanes := strings.Contains(prefix, "x")
	word, _, _ := strings.Cut(name, "_")
	switch {
	case strings.HasPrefix(name, "store"):
		return 0
	case word == "any", word == "all", word == "bitmask":
		return I32
	case lanes && word == "extract":
		lane, _, _ := strings.Cut(prefix, "x")
		return map[string]ValueType{"i8": I32, "i16": I32, "i32": I32, "i64": I64, "f32": F32, "f64": F64}[lane]
	case lanes, prefix == "v128":
		return V128
	}
	switch word {
	case "eqz", "eq", "ne", "lt", "gt", "le", "ge":
		return I32
	}
	return map[string]ValueType{"i32": I32, "i64": I64, "f32": F32, "f64": F64}[prefix]
}

func (op Opcode) effect() effect {
	switch op >> 8 {
	case 0:
		return plainEffects[op]
	case prefixMisc:
		return miscEffects[op&0xff]
	default:
		return vectorEffects[op&0xff]
	}
}

// operands tracks the types on the operand stack through a body. It does not validate: the result
// for an invalid body is undefined. The type 0 means an unknown type, which in valid code
// occurs only in unreachable code.
type operands struct {
	m         *Module
	functions []uint32 // type indices of all functions
	globals   []GlobalType
	tables    []Table
	locals    []ValueType
	stack     []ValueType
	blocks    []operandBlock
}

// operandBlock is an open block, with the height of the stack below it.
type operandBlock struct {
	height          int
	params, results []ValueType
}

func newOperands(m *Module) operands {
	o := operands{m: m, globals: m.GlobalTypes(), tables: m.TableTypes()}
	for i := range m.Imports {
		if m.Imports[i].Kind == ExternalFunction {
			o.functions = append(o.functions, m.Imports[i].Type)
		}
	}
	o.functions = append(o.functions, m.Functions...)
	return o
}

// begin prepares for the body c of a function of type t.
func (o *operands) begin(t FuncType, c *Code) {
	o.locals = append(o.locals[:0], t.Params...)
	for _, g := range c.Locals {
		for range g.Count {
			o.locals = append(o.locals, g.Type)
		}
	}
	o.stack = o.stack[:0]
	o.blocks = append(o.blocks[:0], operandBlock{results: t.Results})
}

// under returns the type of the value at a depth in the current block, or 0 if the block has no
// such value. The top of the stack has depth 0.
func (o *operands) under(depth int) ValueType {
	at := len(o.stack) - 1 - depth
	if len(o.blocks) == 0 || at < o.blocks[len(o.blocks)-1].height {
		return 0
	}
	return o.stack[at]
}

func (o *operands) pop(n int) {
	bottom := 0
	if len(o.blocks) > 0 {
		bottom = o.blocks[len(o.blocks)-1].height
	}
	o.stack = o.stack[:max(bottom, len(o.stack)-n)]
}

func (o *operands) push(types ...ValueType) { o.stack = append(o.stack, types...) }

// step applies the effect of an instruction to the operand stack.
func (o *operands) step(in *Instruction) {
	switch in.Op {
	case OpBlock, OpLoop, OpIf:
		o.open(in)
	case OpElse, OpEnd:
		o.close(in.Op)
	case OpBr, OpBrTable, OpReturn, OpUnreachable:
		o.pop(len(o.stack))
	case OpBrIf, opDrop:
		o.pop(1)
	case opSelect, opSelectTyped:
		t := o.selected(in)
		o.pop(3)
		o.push(t)
	case OpCall:
		o.call(o.functions[in.X], 0)
	case OpCallIndirect:
		o.call(in.X, 1)
	case OpLocalGet:
		o.push(o.locals[in.X])
	case OpLocalSet, OpGlobalSet:
		o.pop(1)
	case OpLocalTee:
		o.pop(1)
		o.push(o.locals[in.X])
	case OpGlobalGet:
		o.push(o.globals[in.X].Type)
	case OpTableGet:
		o.pop(1)
		o.push(o.tables[in.X].Type)
	case OpRefNull:
		o.push(ValueType(in.Value))
	case opRefIsNull:
		o.pop(1)
		o.push(I32)
	case OpRefFunc:
		o.push(FuncRef)
	default:
		e := in.Op.effect()
		o.pop(int(e.takes))
		if e.leaves != 0 {
			o.push(e.leaves)
		}
	}
}

// selected returns the operand type of in, a select that operands has not applied yet.
func (o *operands) selected(in *Instruction) ValueType {
	if in.Op == opSelectTyped {
		return ValueType(in.Value)
	}
	return max(o.under(1), o.under(2))
}

func (o *operands) call(typ uint32, more int) {
	t := &o.m.Types[typ]
	o.pop(len(t.Params) + more)
	o.push(t.Results...)
}

func (o *operands) open(in *Instruction) {
	if in.Op == OpIf {
		o.pop(1)
	}
	b := operandBlock{}
	switch {
	case in.Block.HasIndex:
		t := &o.m.Types[in.Block.Index]
		b.params, b.results = t.Params, t.Results
	case in.Block.Result != 0:
		b.results = []ValueType{in.Block.Result}
	}
	o.pop(len(b.params))
	b.height = len(o.stack)
	o.blocks = append(o.blocks, b)
	o.push(b.params...)
}

func (o *operands) close(op Opcode) {
	last := len(o.blocks) - 1
	b := o.blocks[last]
	o.stack = o.stack[:b.height]
	if op == OpElse {
		o.push(b.params...)
		return
	}
	o.blocks = o.blocks[:last]
	o.push(b.results...)
}
