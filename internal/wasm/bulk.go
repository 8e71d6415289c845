package wasm

import "fmt"

const (
	// pieceBytes is the number of bytes that a bulk instruction processes between fuel
	// checks. A memory.fill of 16 MiB of untouched memory would otherwise delay a garbage
	// collection of the whole host by 20 to 40 ms.
	pieceBytes = 256 << 10
	// fuelBytesLog2 is the binary logarithm of the number of bytes that a bulk instruction
	// moves for one fuel.
	fuelBytesLog2 = 4
	// entryBytesLog2 is the binary logarithm of the size of a table entry in bytes.
	entryBytesLog2 = 3
	// pageBytesLog2 is the binary logarithm of the page size in bytes.
	pageBytesLog2 = 16
	// maxHelpers is the maximum number of helper functions in a module. A module needs one for each
	// combination of bulk instruction and segments or tables.
	maxHelpers = 1_000
)

// hasHelper reports whether Meter replaces the instruction with a call to a helper.
func (op Opcode) hasHelper() bool {
	switch op {
	case OpMemoryGrow, OpMemoryCopy, OpMemoryFill, OpMemoryInit, OpTableInit, OpTableCopy, OpTableGrow, OpTableFill:
		return true
	}
	return false
}

// helper is an inserted function that replaces a bulk instruction, or call_indirect with
// type x.
type helper struct {
	op   Opcode
	x, y uint32
}

// helper returns the index of the helper for the instruction op with the indices x and y. It adds
// the helper if necessary.
func (w *rewriter) helper(op Opcode, x, y uint32) uint32 {
	key := fmt.Sprint(op, x, y)
	f, ok := w.added[key]
	if !ok {
		f = w.pause + 1 + uint32(len(w.helpers))
		w.added[key] = f
		w.helpers = append(w.helpers, helper{op, x, y})
		if n := len(w.helpers); n > maxHelpers && w.err == nil {
			w.err = &Error{
				Kind:     OverLimit,
				Section:  "code",
				Function: -1,
				Thing:    "bulk instructions",
				Value:    uint64(n),
				Limit:    maxHelpers,
				text: fmt.Sprintf(
					"%s bulk instructions with different segments or tables, more than the limit of %s",
					grouped(uint64(n)),
					grouped(maxHelpers),
				),
			}
		}
	}
	return f
}

// writeHelpers appends the helper functions to the module.
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

// instruction appends the bulk instruction that the helper replaces.
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

// The parameters of a bulk helper: the destination, the source or value, and the count.
const (
	to, from, count = 0, 1, 2
)

// bulk returns the body of a helper that executes its instruction in pieces and charges
// each piece before it runs. Like the instruction, it traps before it has any effect if a
// part is out of bounds. It checks that by first executing the instruction at the far
// ends with a count of 0.
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
	unit := fuelBytesLog2
	piece := int32(pieceBytes)
	if h.op != OpMemoryCopy && h.op != OpMemoryFill && h.op != OpMemoryInit {
		unit, piece = fuelBytesLog2-entryBytesLog2, pieceBytes>>entryBytesLog2
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
	endAddress(&a, to, true)
	endAddress(&a, from, moves)
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

// wraps appends code that pushes 1 if the sum of a local and count overflows 32 bits, and 0
// otherwise.
func wraps(a *assembler, local uint32) {
	a.get(local, count)
	a.op(opI32Add)
	a.get(local)
	a.op(opI32LtU)
}

// endAddress appends code that pushes a local. If place is true, the local contains an address, and
// the code adds count to the address.
func endAddress(a *assembler, local uint32, place bool) {
	a.get(local)
	if place {
		a.get(count)
		a.op(opI32Add)
	}
}

// lastPiece appends code that pushes the address at which the last piece begins. The local is
// the address at which the first piece begins.
func lastPiece(a *assembler, local uint32, piece int32) {
	endAddress(a, local, true)
	a.i32(piece)
	a.op(opI32Sub)
}

// firstPiece appends code that executes h's instruction on the first piece and advances the
// operands past that piece.
func firstPiece(a *assembler, h helper, piece int32, moves bool) {
	a.get(to, from)
	a.i32(piece)
	h.instruction(a)
	step(a, to, opI32Add, piece)
	if moves {
		step(a, from, opI32Add, piece)
	}
}

// step appends code that replaces the value of a local with the result of op on that value and
// piece.
func step(a *assembler, local uint32, op Opcode, piece int32) {
	a.get(local)
	a.i32(piece)
	a.op(op)
	a.index(OpLocalSet, local)
}

// chargeCount appends code that charges one fuel for each 1<<unit of count and then checks the
// fuel.
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

// growMemory returns the body of the memory.grow helper, which charges for the new pages. A growth
// beyond the maximum fails and is free, because allocators try such growths. After each memory.grow
// by at least one page, the helper calls the host, because the time that a fuel slice takes depends
// on the amount of untouched memory. For simplicity, it does so even if the growth failed.
func (w *rewriter) growMemory() []byte {
	a := assembler{}
	a.get(0)
	a.i32(int32(w.maxMemory()))
	a.index(opMemorySize, 0)
	a.op(opI32Sub)
	a.op(opI32LeU)
	w.chargeGrowth(&a, 0, pageBytesLog2-fuelBytesLog2)
	a.get(0)
	helper{op: OpMemoryGrow}.instruction(&a)
	a.get(0)
	a.block(OpIf, BlockType{})
	a.index(OpCall, w.pause)
	a.op(OpEnd)
	a.op(OpEnd)
	return a
}

// growTable returns the body of a table.grow helper, which charges one fuel for each new entry. A
// growth beyond the maximum fails and is free.
func (w *rewriter) growTable(h helper) []byte {
	a := assembler{}
	limit := uint32(1<<32 - 1)
	if s := w.tables[h.x].Size; s.HasMax {
		limit = s.Max
	}
	a.get(1)
	a.i32(int32(limit))
	a.index(OpTableSize, h.x)
	a.op(opI32Sub)
	a.op(opI32LeU)
	w.chargeGrowth(&a, 1, 0)
	a.get(0, 1)
	h.instruction(&a)
	a.op(OpEnd)
	return a
}

// chargeGrowth appends code that pops a condition. If the condition is true, the code charges the
// value of a local shifted left by shift, and checks the fuel.
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
