package wasm

import (
	"encoding/binary"
	"slices"
)

// smallLeaf is the maximum size in fuel of a leaf function without a fuel check. A leaf function
// neither loops nor calls. Each call of one counts as work of its caller, whose fuel checks limit
// the number of calls between two checks.
const smallLeaf = 32

// code rewrites all bodies and appends the functions that rewritten bodies call.
func (w *rewriter) code() {
	w.pause = w.imported + 1 + uint32(len(w.in.Functions))
	w.out.Functions = append(w.out.Functions, w.typeIndex(FuncType{}))
	w.planner.leaf = smallLeaf
	if !w.bodies() {
		w.planner.leaf = 0
		w.bodies()
	}
	w.checkHeld()
	w.out.Code = append(w.out.Code, Code{Body: w.pauseBody()})
	w.writeHelpers()
}

// bodies rewrites all bodies. It returns false if calls of small leaf functions would need too many
// additional checks. The caller must then call bodies again with checks in the leaf functions.
func (w *rewriter) bodies() bool {
	w.out.Code, w.workaround.used, w.held = make([]Code, len(w.in.Code), len(w.in.Code)+16), false, 0
	size := 0
	for i := range w.in.Code {
		size += len(w.in.Code[i].Body)
	}
	// One slab for all bodies: the insertions add about a third.
	slab := make([]byte, 0, size+size/2+64)
	for i := range w.in.Code {
		from := len(slab)
		slab = w.body(slab, &w.in.Code[i], w.in.Types[w.in.Functions[i]])
		if w.planner.checks > maxChecks && w.planner.leaf > 0 {
			return false
		}
		w.out.Code[i] = Code{Locals: w.locals(&w.in.Code[i]), Body: slab[from:len(slab):len(slab)]}
	}
	return true
}

// locals returns the locals of the function whose body was rewritten last, including those that the
// body's workarounds need.
func (w *rewriter) locals(c *Code) []Locals {
	if !w.workaround.used {
		return c.Locals
	}
	w.workaround.used = false
	return slices.Concat(c.Locals, workaroundLocals)
}

// pauseBody returns the body of the function that failed checks call. It passes the
// counters to the host. A separate function makes the checks small.
func (w *rewriter) pauseBody() []byte {
	a := assembler{}
	a.index(OpGlobalGet, w.fuel)
	a.index(OpGlobalGet, w.depth)
	a.index(OpCall, w.imported)
	a.index(OpGlobalSet, w.fuel)
	a.op(OpEnd)
	return a
}

// body appends the metered body of c, a function of type t, to b.
func (w *rewriter) body(b []byte, c *Code, t FuncType) []byte {
	p := &w.planner
	p.read(c, len(t.Params))
	p.placeChecks()
	p.settle()
	if p.checks > 0 {
		w.hold(c, t)
	}
	if p.miscompiled {
		w.workaround.begin(t, c)
	}
	a := assembler(b)
	w.charge(&a, p.nodes[0].cost)
	if p.calls {
		w.frame = w.framer.frame(t, c, p.checks)
		w.add(&a, w.depth, -w.frame)
	}
	switch {
	case p.entryLoop != noNode:
		// The check at the loop's head is enough, because the path to it is short.
	case p.calls:
		w.checkBoth(&a)
	case p.loops || p.size > p.leaf:
		w.check(&a)
	}
	wrapped := p.calls && p.leaves
	if wrapped {
		a.block(OpBlock, w.blockType(t.Results))
	}
	w.instructions(&a, c, p)
	if p.calls {
		if !wrapped {
			a = a[:len(a)-1] // remove the body's own end, which follows below
		}
		w.add(&a, w.depth, w.frame)
		a.op(OpEnd)
	}
	return a
}

func (w *rewriter) blockType(results []ValueType) BlockType {
	switch len(results) {
	case 0:
		return BlockType{}
	case 1:
		return BlockType{Result: results[0]}
	}
	return BlockType{Index: w.typeIndex(FuncType{Results: results}), HasIndex: true}
}

// instructions copies a body and inserts charges, fuel checks and replacements.
func (w *rewriter) instructions(a *assembler, c *Code, p *planner) {
	next, copied := 1, 0
	var in Instruction
	for it := c.Instructions(); it.Next(&in); {
		for next < len(p.nodes) && p.nodes[next].at <= in.Start {
			if n := &p.nodes[next]; n.cost > 0 || n.head || n.checks {
				*a = append(*a, c.Body[copied:in.Start]...)
				copied = in.Start
				w.charge(a, n.cost)
				w.insertCheck(a, p, next)
			}
			next++
		}
		if w.replacement = w.replacement[:0]; w.replace(&w.replacement, &in, p) {
			*a = append(*a, c.Body[copied:in.Start]...)
			*a = append(*a, w.replacement...)
			copied = in.End
		}
	}
	*a = append(*a, c.Body[copied:]...)
}

// replace appends the replacement of an instruction and reports whether there is one.
func (w *rewriter) replace(a *assembler, in *Instruction, p *planner) bool {
	if p.miscompiled && w.workaround.replace(a, in) {
		return true
	}
	switch in.Op {
	case OpBr:
		if len(p.direct) == 0 || p.direct[0].at != in.Start {
			return false
		}
		a.index(OpBr, p.direct[0].label)
		p.direct = p.direct[1:]
	case OpReturn:
		if !p.calls {
			return false
		}
		w.add(a, w.depth, w.frame)
		a.op(OpReturn)
	case OpCall, OpRefFunc:
		if in.X < w.imported {
			return false
		}
		a.index(in.Op, w.function(in.X))
	case OpCallIndirect:
		if w.fixed == nil {
			return false
		}
		a.index(OpCall, w.helper(in.Op, w.types[w.in.Types[in.X].String()], 0))
	default:
		if !in.Op.hasHelper() {
			return false
		}
		a.index(OpCall, w.helper(in.Op, in.X, in.Y))
	}
	return true
}

// insertCheck inserts the fuel check of a node, if it needs one.
func (w *rewriter) insertCheck(a *assembler, p *planner, node int) {
	switch n := &p.nodes[node]; {
	case !n.head && !n.checks:
	case p.calls && p.entryLoop == int32(node):
		w.checkBoth(a)
	default:
		w.check(a)
	}
}

// charge appends code that subtracts cost from the fuel.
func (w *rewriter) charge(a *assembler, cost int) {
	if cost > 0 {
		w.add(a, w.fuel, -int64(cost))
	}
}

// add appends code that adds n to a counter. If n is negative, the code subtracts -n, because
// wazero encodes a positive number as an immediate but needs another instruction for a negative
// one.
func (w *rewriter) add(a *assembler, global uint32, n int64) {
	op := opI64Add
	if n < 0 {
		op, n = opI64Sub, -n
	}
	a.index(OpGlobalGet, global)
	a.i64(n)
	a.op(op)
	a.index(OpGlobalSet, global)
}

// check appends code that calls the host if the fuel is used up.
func (w *rewriter) check(a *assembler) {
	a.index(OpGlobalGet, w.fuel)
	w.ifNegative(a)
}

// checkBoth appends code that calls the host if the fuel or the stack is used up.
func (w *rewriter) checkBoth(a *assembler) {
	a.index(OpGlobalGet, w.fuel)
	a.index(OpGlobalGet, w.depth)
	a.op(opI64Or)
	w.ifNegative(a)
}

func (w *rewriter) ifNegative(a *assembler) {
	a.i64(0)
	a.op(opI64LtS)
	a.block(OpIf, BlockType{})
	a.index(OpCall, w.pause)
	a.op(OpEnd)
}

// assembler is a buffer of encoded instructions. Its methods append instructions.
type assembler []byte

func (a *assembler) op(op Opcode) {
	if op > 0xff {
		*a = append(*a, byte(op>>8))
		*a = binary.AppendUvarint(*a, uint64(op&0xff))
		return
	}
	*a = append(*a, byte(op))
}

func (a *assembler) index(op Opcode, indices ...uint32) {
	a.op(op)
	for _, i := range indices {
		*a = binary.AppendUvarint(*a, uint64(i))
	}
}

func (a *assembler) i32(v int32) {
	*a = appendSigned(append(*a, byte(OpI32Const)), int64(v))
}

func (a *assembler) i64(v int64) {
	*a = appendSigned(append(*a, byte(OpI64Const)), v)
}

func (a *assembler) block(op Opcode, t BlockType) {
	*a = append(*a, byte(op))
	switch {
	case t.HasIndex:
		*a = appendSigned(*a, int64(t.Index))
	case t.Result != 0:
		*a = append(*a, byte(t.Result))
	default:
		*a = append(*a, 0x40)
	}
}

// get appends a local.get for each local.
func (a *assembler) get(locals ...uint32) {
	for _, l := range locals {
		a.index(OpLocalGet, l)
	}
}

// The opcodes that only this package refers to by name.
const (
	opDrop              Opcode = 0x1a
	opSelect            Opcode = 0x1b
	opSelectTyped       Opcode = 0x1c
	opMemorySize        Opcode = 0x3f
	opI32Eqz            Opcode = 0x45
	opI32LtU            Opcode = 0x49
	opI32GtU            Opcode = 0x4b
	opI32LeU            Opcode = 0x4d
	opI64LtS            Opcode = 0x53
	opI32Add            Opcode = 0x6a
	opI32Sub            Opcode = 0x6b
	opI32And            Opcode = 0x71
	opI32Or             Opcode = 0x72
	opI32ShrU           Opcode = 0x76
	opI64Add            Opcode = 0x7c
	opI64Sub            Opcode = 0x7d
	opI64And            Opcode = 0x83
	opI64Or             Opcode = 0x84
	opI64Shl            Opcode = 0x86
	opI64ShrU           Opcode = 0x88
	opF32Mul            Opcode = 0x94
	opF32Copysign       Opcode = 0x98
	opF64Mul            Opcode = 0xa2
	opF64Copysign       Opcode = 0xa6
	opI64ExtendI32      Opcode = 0xad
	opF32ConvertI64S    Opcode = 0xb4
	opF32ConvertI64U    Opcode = 0xb5
	opF64ConvertI64S    Opcode = 0xb9
	opF64ConvertI64U    Opcode = 0xba
	opI32ReinterpretF32 Opcode = 0xbc
	opI64ReinterpretF64 Opcode = 0xbd
	opF32ReinterpretI32 Opcode = 0xbe
	opF64ReinterpretI64 Opcode = 0xbf
	opRefIsNull         Opcode = 0xd1
	opI32x4Splat        Opcode = 0xfd11
	opV128And           Opcode = 0xfd4e
	opV128AndNot        Opcode = 0xfd4f
	opV128Or            Opcode = 0xfd50
	opV128Bitselect     Opcode = 0xfd52
)
