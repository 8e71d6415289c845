package wasm

// Instruction is one instruction of a body with its immediates decoded.
type Instruction struct {
	Op Opcode
	// Start and End are offsets in the body.
	Start, End int
	// X is the first index after the opcode: a label, function, local, global, type, table or
	// segment. For br_table it is the number of labels without the default, for a memory access the
	// binary logarithm of the alignment.
	X uint32
	// Y is the second index: the table of call_indirect and table.init, the source of
	// table.copy, the default of br_table, or the offset of a memory access.
	Y uint32
	// Lane is the lane index of a vector lane instruction.
	Lane uint8
	// Value is a constant's bits, or the type of a null reference.
	Value uint64
	// Block is the type of a block, loop or if.
	Block BlockType
	// Raw is the 16 bytes of v128.const and i8x16.shuffle, and the encoded labels of
	// br_table, which Labels decodes.
	Raw []byte
}

// BlockType is the type of a block: none, one result, or a type of the module.
type BlockType struct {
	// Index is the index of the type. It is valid if HasIndex is set.
	Index    uint32
	HasIndex bool
	// Result is the result type, or 0 if there is none. It is valid if HasIndex is not
	// set.
	Result ValueType
}

// Labels calls f for each label of a br_table, and for the default label last.
func (in *Instruction) Labels(f func(label uint32)) {
	r := reader{b: in.Raw}
	for range in.X {
		f(r.u32("label"))
	}
	f(in.Y)
}

// Instructions iterates over the instructions of a body.
type Instructions struct {
	r reader
}

// Instructions returns an iterator over the instructions of c.
func (c *Code) Instructions() *Instructions {
	return &Instructions{reader{b: c.Body, base: c.Offset, section: "code", function: -1}}
}

// Next decodes the next instruction. It returns false at the end of the body and at the
// first malformed instruction; Err returns the error.
func (it *Instructions) Next(in *Instruction) bool {
	r := &it.r
	if r.pos >= len(r.b) || r.err != nil {
		return false
	}
	in.Start, in.X, in.Y = r.pos, 0, 0
	c := r.b[r.pos]
	r.pos++
	var o *operation
	switch {
	case c < prefixMisc:
		o, in.Op = &plain[c], Opcode(c)
	case c == prefixMisc || c == prefixVector:
		if o, in.Op = it.prefixed(c, in.Start); o == nil {
			return false
		}
	default:
		o = &operation{}
	}
	if o.name == "" {
		it.unknown(in.Start, c, uint32(in.Op&0xff))
		return false
	}
	if o.imm != immNone {
		it.immediates(in, o)
	}
	in.End = r.pos
	return r.err == nil
}

// Err returns the error that ended the iteration, or nil at the end of the body.
func (it *Instructions) Err() error {
	if it.r.err != nil {
		return it.r.err
	}
	return nil
}

func (it *Instructions) prefixed(prefix byte, start int) (*operation, Opcode) {
	sub := it.r.u32("opcode")
	if it.r.err != nil {
		return nil, 0
	}
	op := Opcode(prefix)<<8 | Opcode(sub&0xff)
	switch {
	case prefix == prefixMisc && sub < uint32(len(misc)):
		return &misc[sub], op
	case prefix == prefixVector && sub < uint32(len(vector)):
		return &vector[sub], op
	}
	it.unknown(start, prefix, sub)
	return nil, 0
}

func (it *Instructions) unknown(start int, op byte, sub uint32) {
	if f := featureOfOpcode(op, sub); f != "" {
		it.r.unsupported(start, f)
		return
	}
	if op == prefixMisc || op == prefixVector {
		it.r.failAt(start, Malformed, "opcode", uint64(sub), 0, "there is no instruction with opcode %#x %#x", op, sub)
		return
	}
	it.r.failAt(start, Malformed, "opcode", uint64(op), 0, "there is no instruction with opcode %#x", op)
}

func (it *Instructions) immediates(in *Instruction, o *operation) {
	r := &it.r
	switch o.imm {
	case immLocal, immGlobal, immLabel, immFunction, immTable, immData, immElem:
		in.X = r.u32(o.name)
	case immI32:
		in.Value = uint64(uint32(r.signed(32, "i32.const")))
	case immI64:
		in.Value = uint64(r.signed(64, "i64.const"))
	case immF32:
		in.Value = r.f32("f32.const")
	case immF64:
		in.Value = r.f64("f64.const")
	case immAccess, immAccessLane:
		it.access(in, o)
		if o.imm == immAccessLane {
			it.lane(in, o)
		}
	case immLane:
		it.lane(in, o)
	case immBlock:
		in.Block = it.blockType()
	case immLabels:
		it.labels(in)
	case immIndirect, immTables, immElemTable:
		in.X = r.u32(o.name)
		in.Y = r.u32(o.name)
	case immTypes:
		if n := r.u32("the number of types of select"); n != 1 && r.err == nil {
			r.failAt(in.Start, Invalid, "types of select", uint64(n), 1, "select has %s types, want one", grouped(uint64(n)))
		}
		in.Value = uint64(r.valueType("the type of select"))
	case immMemory:
		r.zero(o.name)
	case immMemories:
		r.zero(o.name)
		r.zero(o.name)
	case immDataMemory:
		in.X = r.u32(o.name)
		r.zero(o.name)
	case immRefType:
		in.Value = uint64(r.refType("the type of ref.null"))
	case immV128, immShuffle:
		in.Raw = r.bytes(16, o.name)
		if o.imm == immShuffle {
			it.shuffle(in)
		}
	}
}

func (it *Instructions) access(in *Instruction, o *operation) {
	in.X = it.r.u32("alignment")
	if in.X > uint32(o.align) && it.r.err == nil {
		if in.X&^0x3f == 0x40 {
			it.r.unsupported(in.Start, "multiple memories")
			return
		}
		it.r.failAt(
			in.Start,
			Invalid,
			"alignment",
			uint64(in.X),
			uint64(o.align),
			"the alignment of %s is 2^%d, at most 2^%d is allowed",
			o.name,
			in.X,
			o.align,
		)
	}
	in.Y = it.r.u32("offset")
}

func (it *Instructions) lane(in *Instruction, o *operation) {
	in.Lane = it.r.u8("lane")
	if in.Lane >= o.lanes && it.r.err == nil {
		it.r.failAt(
			in.Start,
			Invalid,
			"lane",
			uint64(in.Lane),
			uint64(o.lanes),
			"%s has no lane %d, it has %d",
			o.name,
			in.Lane,
			o.lanes,
		)
	}
}

func (it *Instructions) shuffle(in *Instruction) {
	for _, lane := range in.Raw {
		if lane >= 32 {
			it.r.failAt(in.Start, Invalid, "lane", uint64(lane), 32, "i8x16.shuffle has no lane %d, it has 32", lane)
			return
		}
	}
}

func (it *Instructions) blockType() BlockType {
	r := &it.r
	at := r.pos
	v := r.signed(33, "block type")
	switch {
	case r.err != nil:
		return BlockType{}
	case v >= 0:
		return BlockType{Index: uint32(v), HasIndex: true}
	case v == -0x40 && r.pos == at+1:
		return BlockType{}
	case v > -0x40 && r.pos == at+1:
		r.pos = at
		return BlockType{Result: r.valueType("block type")}
	}
	r.failAt(at, Malformed, "block type", 0, 0, "the block type is neither a value type nor an index")
	return BlockType{}
}

func (it *Instructions) labels(in *Instruction) {
	r := &it.r
	in.X = uint32(r.count("branch targets", maxLabels, 1))
	start := r.pos
	for i := uint32(0); i < in.X && r.err == nil; i++ {
		r.u32("label")
	}
	if r.err == nil {
		in.Raw = r.b[start:r.pos:r.pos]
	}
	in.Y = r.u32("label")
}

// maxLabels is the limit for the labels of a br_table while iterating. It allows any number,
// because the remaining bytes bound the number.
const maxLabels = 1<<32 - 1
