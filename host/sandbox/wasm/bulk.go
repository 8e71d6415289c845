package wasm

import "fmt"

const (
	// pieceBytes is what a bulk instruction does before fuel is looked at
	// again. A 16 MiB memory.fill of cold memory would otherwise hold up a
	// garbage collection of the whole host for 20 to 40 ms.
	pieceBytes = 256 << 10
	// fuelBytes is how many bytes a bulk instruction moves for one fuel, as a
	// power of two.
	fuelBytes = 4
	// entryBytes is the size of a table's entry, as a power of two.
	entryBytes = 3
	// pageBytes is the size of a page, as a power of two.
	pageBytes = 16
	// maxHelpers is how many inserted functions a module may need: one for
	// each bulk instruction with other segments or tables.
	maxHelpers = 1_000
)

// helped reports whether a call of a helper stands for the instruction once the module
// is metered.
func (op Opcode) helped() bool {
	switch op {
	case OpMemoryGrow, OpMemoryCopy, OpMemoryFill, OpMemoryInit, OpTableInit, OpTableCopy, OpTableGrow, OpTableFill:
		return true
	}
	return false
}

// helper is an inserted function that stands for a bulk instruction, or for
// call_indirect with a type.
type helper struct {
	op   Opcode
	x, y uint32
}

// helper returns the function for an instruction, adding it if need be.
func (w *rewriter) helper(op Opcode, x, y uint32) uint32 {
	key := fmt.Sprint(op, x, y)
	f, ok := w.added[key]
	if !ok {
		f = w.pause + 1 + uint32(len(w.helpers))
		w.added[key] = f
		w.helpers = append(w.helpers, helper{op, x, y})
		if n := len(w.helpers); n > maxHelpers && w.err == nil {
			w.err = &Error{Kind: OverLimit, Section: "code", Function: -1, Thing: "bulk instructions", Value: uint64(n), Limit: maxHelpers,
				text: fmt.Sprintf("%s bulk instructions with different segments or tables, more than the limit of %s", grouped(uint64(n)), grouped(maxHelpers))}
		}
	}
	return f
}

func (w *rewriter) writeHelpers() {
	for _, h := range w.helpers {
		var t FuncType
		var body []byte
		three := FuncType{Params: []ValueType{I32, I32, I32}}
		switch h.op {
		case OpMemoryGrow:
			t, body = FuncType{[]ValueType{I32}, []ValueType{I32}}, w.growMemory()
		case OpTableGrow:
			t, body = FuncType{[]ValueType{w.tables[h.x].Type, I32}, []ValueType{I32}}, w.growTable(h)
		case OpCallIndirect:
			t, body = w.callFixed(h.x)
		case OpTableFill:
			t, body = FuncType{Params: []ValueType{I32, w.tables[h.x].Type, I32}}, w.bulk(h)
		default:
			t, body = three, w.bulk(h)
		}
		w.out.Functions = append(w.out.Functions, w.typeIndex(t))
		w.out.Code = append(w.out.Code, Code{Body: body})
	}
}

// instruction appends the bulk instruction itself.
func (h helper) instruction(a *assembler) {
	switch h.op {
	case OpMemoryInit, OpMemoryCopy:
		a.index(h.op, h.x, 0)
	case OpMemoryGrow, OpMemoryFill:
		a.index(h.op, 0)
	case OpTableInit, OpTableCopy:
		a.index(h.op, h.x, h.y)
	default: // OpTableFill, OpTableGrow
		a.index(h.op, h.x)
	}
}

// The parameters of a bulk helper: where to, what or where from, how many.
const (
	to, from, count = 0, 1, 2
)

// bulk does an instruction in pieces, charging each before it is done. As the
// instruction itself does, it traps before it has any effect if a part of it is
// out of bounds: it tries the far ends with a length of 0 first.
//
//	if count > piece {
//		if to+count or from+count wraps { charge(count); instruction; return }
//		instruction(to+count, from+count, 0)
//		do {
//			charge(piece)
//			instruction on the first piece, or the last if copying upwards
//			count -= piece
//		} while count > piece
//	}
//	charge(count)
//	instruction(to, from, count)
func (w *rewriter) bulk(h helper) []byte {
	a := assembler{}
	unit := fuelBytes
	piece := int32(pieceBytes)
	if h.op != OpMemoryCopy && h.op != OpMemoryFill && h.op != OpMemoryInit {
		unit, piece = fuelBytes-entryBytes, pieceBytes>>entryBytes
	}
	moves := h.op != OpMemoryFill && h.op != OpTableFill

	w.morePieces(&a, piece)
	a.block(OpIf, BlockType{})
	wraps(&a, to)
	if moves {
		wraps(&a, from)
		a.op(opI32Or)
	}
	a.block(OpIf, BlockType{})
	w.chargeCount(&a, unit)
	a.get(to, from, count)
	h.instruction(&a)
	a.op(OpReturn)
	a.op(OpEnd)
	farEnd(&a, to, true)
	farEnd(&a, from, moves)
	a.i32(0)
	h.instruction(&a)

	a.block(OpLoop, BlockType{})
	w.charge(&a, int(piece>>unit))
	w.check(&a)
	if h.op == OpMemoryCopy || h.op == OpTableCopy {
		a.get(to, from)
		a.op(opI32GtU)
		a.block(OpIf, BlockType{})
		lastPiece(&a, to, piece)
		lastPiece(&a, from, piece)
		a.i32(piece)
		h.instruction(&a)
		a.op(OpElse)
		firstPiece(&a, h, piece, moves)
		a.op(OpEnd)
	} else {
		firstPiece(&a, h, piece, moves)
	}
	step(&a, count, opI32Sub, piece)
	w.morePieces(&a, piece)
	a.index(OpBrIf, 0)
	a.op(OpEnd)
	a.op(OpEnd)

	w.chargeCount(&a, unit)
	a.get(to, from, count)
	h.instruction(&a)
	a.op(OpEnd)
	return a
}

func (w *rewriter) morePieces(a *assembler, piece int32) {
	a.get(count)
	a.i32(piece)
	a.op(opI32GtU)
}

// wraps pushes whether a local plus count is more than 32 bits hold.
func wraps(a *assembler, local uint32) {
	a.get(local, count)
	a.op(opI32Add)
	a.get(local)
	a.op(opI32LtU)
}

// farEnd pushes a local, plus count if it is a place.
func farEnd(a *assembler, local uint32, place bool) {
	a.get(local)
	if place {
		a.get(count)
		a.op(opI32Add)
	}
}

func lastPiece(a *assembler, local uint32, piece int32) {
	farEnd(a, local, true)
	a.i32(piece)
	a.op(opI32Sub)
}

func firstPiece(a *assembler, h helper, piece int32, moves bool) {
	a.get(to, from)
	a.i32(piece)
	h.instruction(a)
	step(a, to, opI32Add, piece)
	if moves {
		step(a, from, opI32Add, piece)
	}
}

func step(a *assembler, local uint32, op Opcode, piece int32) {
	a.get(local)
	a.i32(piece)
	a.op(op)
	a.index(OpLocalSet, local)
}

// chargeCount charges count units, of which 2^unit cost one fuel.
func (w *rewriter) chargeCount(a *assembler, unit int) {
	a.index(OpGlobalGet, w.fuel)
	a.get(count)
	a.i32(int32(unit))
	a.op(opI32ShrU)
	a.op(opI64ExtendI32)
	a.op(opI64Sub)
	a.index(OpGlobalSet, w.fuel)
	w.check(a)
}

// growMemory charges what is going to be added. A growth beyond the maximum
// fails and costs nothing: allocators try. The host gets to know when the memory has
// grown: how long a slice of fuel takes depends on how much there is that nobody has
// touched yet.
func (w *rewriter) growMemory() []byte {
	a := assembler{}
	a.get(0)
	a.i32(int32(w.maxMemory()))
	a.index(opMemorySize, 0)
	a.op(opI32Sub)
	a.op(opI32LeU)
	w.chargeGrowth(&a, 0, pageBytes-fuelBytes)
	a.get(0)
	helper{op: OpMemoryGrow}.instruction(&a)
	a.get(0)
	a.block(OpIf, BlockType{})
	a.index(OpCall, w.pause)
	a.op(OpEnd)
	a.op(OpEnd)
	return a
}

func (w *rewriter) growTable(h helper) []byte {
	a := assembler{}
	most := uint32(1<<32 - 1)
	if s := w.tables[h.x].Size; s.HasMax {
		most = s.Max
	}
	a.get(1)
	a.i32(int32(most))
	a.index(OpTableSize, h.x)
	a.op(opI32Sub)
	a.op(opI32LeU)
	w.chargeGrowth(&a, 1, 0)
	a.get(0, 1)
	h.instruction(&a)
	a.op(OpEnd)
	return a
}

// chargeGrowth charges, if the condition on the stack holds, a local times a
// power of two.
func (w *rewriter) chargeGrowth(a *assembler, local uint32, shift int64) {
	a.block(OpIf, BlockType{})
	a.index(OpGlobalGet, w.fuel)
	a.get(local)
	a.op(opI64ExtendI32)
	a.i64(shift)
	a.op(opI64Shl)
	a.op(opI64Sub)
	a.index(OpGlobalSet, w.fuel)
	w.check(a)
	a.op(OpEnd)
}
