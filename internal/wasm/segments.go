package wasm

import "slices"

// The flags of an element segment. The lowest bit means that it is not active; the
// meaning of the second bit depends on the first.
const (
	elementNotActive   = 1
	elementDeclarative = 2 // for a segment that is not active: whether it is declarative
	elementTable       = 2 // for an active segment: whether it has a table index
	elementExprs       = 4
)

func (d *decoder) elements() {
	n := d.count("element segments", d.limits.ElementSegments, 2)
	d.m.Elements = slices.Grow(d.m.Elements, n)
	for i := 0; i < n && d.err == nil; i++ {
		d.m.Elements = append(d.m.Elements, d.element())
	}
}

func (d *decoder) element() (e Element) {
	at := d.pos
	flags := d.u32("the flags of an element segment")
	if flags > 7 {
		d.failAt(at, Malformed, "flags", uint64(flags), 7, "the flags of an element segment are %#x, want 0 to 7", flags)
		return e
	}
	switch {
	case flags&elementNotActive == 0:
		d.elementTarget(&e, flags)
	case flags&elementDeclarative != 0:
		e.Mode = Declarative
	default:
		e.Mode = Passive
	}
	d.elementType(&e, flags)
	if e.Mode == Active && d.err == nil {
		if t := d.tableTypes[e.Table].Type; t != e.Type {
			d.failAt(at, Invalid, "element segment", 0, 0, "an element segment of %s is for a table of %s", e.Type, t)
		}
	}
	d.elementEntries(&e, flags)
	return e
}

func (d *decoder) elementTarget(e *Element, flags uint32) {
	at := d.pos
	if flags&elementTable != 0 {
		e.Table = d.u32("the table of an element segment")
	}
	d.index(at, "table", e.Table, len(d.tableTypes))
	e.Offset = d.constExpr(I32)
}

func (d *decoder) elementType(e *Element, flags uint32) {
	e.Type = FuncRef
	at := d.pos
	switch {
	case flags&3 == 0: // encodes neither a type nor a kind
	case flags&elementExprs != 0:
		e.Type = d.refType("the type of an element segment")
	default:
		if kind := d.u8("the kind of an element segment"); kind != 0 {
			d.failAt(
				at,
				Malformed,
				"kind of an element segment",
				uint64(kind),
				0,
				"the kind of an element segment is %#x, want 0 for functions",
				kind,
			)
		}
	}
}

func (d *decoder) elementEntries(e *Element, flags uint32) {
	at := d.pos
	size := 1
	if flags&elementExprs != 0 {
		size = 3
	}
	n := d.count("element entries", d.limits.ElementEntries, size)
	if d.elementCount += n; d.elementCount > d.limits.ElementEntries && d.err == nil {
		d.overLimit(
			at,
			"element entries",
			uint64(d.elementCount),
			d.limits.ElementEntries,
			" as the sum of all element segments",
		)
	}
	if d.err != nil {
		return
	}
	if flags&elementExprs != 0 {
		e.Exprs = make([]ConstExpr, n)
		for i := range e.Exprs {
			if e.Exprs[i] = d.constExpr(e.Type); d.err != nil {
				return
			}
		}
		return
	}
	e.Functions = make([]uint32, n)
	for i := range e.Functions {
		at := d.pos
		e.Functions[i] = d.u32("the index of a function")
		if d.index(at, "function", e.Functions[i], len(d.functionTypes)); d.err != nil {
			return
		}
		d.refer(e.Functions[i])
	}
}

func (d *decoder) data() {
	n := d.count("data segments", d.limits.DataSegments, 2)
	d.m.Data = slices.Grow(d.m.Data, n)
	for i := 0; i < n && d.err == nil; i++ {
		var s Data
		at := d.pos
		switch flags := d.u32("the flags of a data segment"); flags {
		case 0, 2:
			if flags == 2 {
				d.memoryIndex()
			}
			if d.memoryCount == 0 && d.err == nil {
				d.failAt(at, Invalid, "memory", 0, 0, "data segment %d is for a memory, but the module has none", i)
			}
			s.Offset = d.constExpr(I32)
		case 1:
			s.Mode = Passive
		default:
			d.failAt(at, Malformed, "flags", uint64(flags), 2, "the flags of a data segment are %#x, want 0 to 2", flags)
		}
		s.Init = d.bytes(uint64(d.u32("the size of a data segment")), "a data segment")
		d.m.Data = append(d.m.Data, s)
	}
}

// constExpr reads a constant expression of type want.
func (d *decoder) constExpr(want ValueType) (e ConstExpr) {
	at := d.pos
	e.Op = Opcode(d.u8("a constant expression"))
	got := want
	switch e.Op {
	case OpI32Const:
		e.Bits, got = uint64(uint32(d.signed(32, "i32.const"))), I32
	case OpI64Const:
		e.Bits, got = uint64(d.signed(64, "i64.const")), I64
	case OpF32Const:
		e.Bits, got = d.f32("f32.const"), F32
	case OpF64Const:
		e.Bits, got = d.f64("f64.const"), F64
	case OpGlobalGet:
		got = d.constGlobal(at, &e)
	case OpRefNull:
		got = d.refType("the type of ref.null")
		e.Bits = uint64(got)
	case OpRefFunc:
		f := d.u32("the index of a function")
		d.index(at, "function", f, len(d.functionTypes))
		d.refer(f)
		e.Bits, got = uint64(f), FuncRef
	case prefixVector:
		got = d.constVector(at, &e)
	default:
		if d.err == nil {
			d.notConst(at, byte(e.Op))
		}
	}
	if got != want && d.err == nil {
		d.failAt(at, Invalid, "constant expression", 0, 0, "a constant expression has type %s, want %s", got, want)
	}
	at = d.pos
	if end := d.u8("the end of a constant expression"); Opcode(end) != OpEnd && d.err == nil {
		d.notConst(at, end)
	}
	return e
}

func (d *decoder) constGlobal(at int, e *ConstExpr) ValueType {
	g := d.u32("the index of a global")
	if d.err != nil {
		return 0
	}
	if int64(g) >= int64(d.imported.globals) {
		d.failAt(
			at,
			Invalid,
			"global",
			uint64(g),
			uint64(d.imported.globals),
			"a constant expression reads global %s, but may read the %d imported ones only",
			grouped(uint64(g)),
			d.imported.globals,
		)
		return 0
	}
	if d.globalTypes[g].Mutable {
		d.failAt(at, Invalid, "global", uint64(g), 0, "a constant expression reads global %d, which is mutable", g)
	}
	e.Bits = uint64(g)
	return d.globalTypes[g].Type
}

func (d *decoder) constVector(at int, e *ConstExpr) ValueType {
	if sub := d.u32("opcode"); sub != uint32(OpV128Const&0xff) && d.err == nil {
		d.failAt(
			at,
			Invalid,
			"constant expression",
			uint64(sub),
			0,
			"a constant expression has vector instruction %#x, only v128.const is allowed",
			sub,
		)
	}
	e.Op = OpV128Const
	e.Bits, e.High = d.f64("v128.const"), d.f64("v128.const")
	return V128
}

// notConst records the error for op, an opcode at the offset at that is not allowed in a constant
// expression.
func (d *decoder) notConst(at int, op byte) {
	switch {
	case op >= 0x6a && op <= 0x6c, op >= 0x7c && op <= 0x7e,
		// A second constant can only be an operand of one of the opcodes above.
		op == byte(OpI32Const), op == byte(OpI64Const), op == byte(OpGlobalGet):
		d.unsupported(at, "extended constant expressions")
	case featureOfOpcode(op, 0) != "":
		d.unsupported(at, featureOfOpcode(op, 0))
	default:
		d.failAt(
			at,
			Invalid,
			"constant expression",
			uint64(op),
			0,
			"a constant expression has %s, want one constant and end",
			Opcode(op),
		)
	}
}

func (d *decoder) memoryIndex() {
	at := d.pos
	if d.u32("the memory of a data segment") != 0 && d.err == nil {
		d.unsupported(at, "multiple memories")
	}
}
