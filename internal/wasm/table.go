package wasm

import (
	"encoding/binary"
	"math"
	"slices"
)

// A fixedTable is a table that cannot change, such as a Go module's. Its module gets another
// implementation of call_indirect: for each type, a function with a br_table that branches to the
// call of the selected function. The table itself is then empty.
//
// This saves memory. wazero implements a table as a list of pointers to objects that it allocates
// for each entry of each instance: 160 KB for a Go program, two thirds of the size of an instance,
// and several thousand objects for Go's garbage collector to scan. All instances share the machine
// code.
//
// The calls and their fuel are the same. A call that would trap still traps, but always
// with the error for an index out of range, even if the entry has another type.
type fixedTable struct {
	entries []uint32 // function indices of the original, or noFunction
}

const (
	noFunction = math.MaxUint32

	// minFixedEntries is the minimum number of functions in a replaced table. Smaller tables take
	// little memory.
	minFixedEntries = 256
	// maxFixedEntries and maxFixedCases bound the size and the types of a replaced table: each type
	// needs a br_table with all entries, which takes time to compile.
	maxFixedEntries = 16 << 10
	maxFixedCases   = 32 << 10 // sum of the entries over all types
)

// fix returns the table of a module if it has at least minimum functions and at most
// maxFixedEntries entries, and if nothing but call_indirect can change or observe it. Otherwise it
// returns nil.
func fix(m *Module, minimum int) *fixedTable {
	if len(m.Tables) != 1 || m.Tables[0].Type != FuncRef || len(m.TableTypes()) != 1 ||
		m.Tables[0].Size.Min > maxFixedEntries {
		return nil
	}
	for i := range m.Exports {
		if m.Exports[i].Kind == ExternalTable {
			return nil
		}
	}
	for i := range m.Globals {
		if m.Globals[i].Init.Op == OpRefFunc {
			return nil
		}
	}
	t := &fixedTable{make([]uint32, m.Tables[0].Size.Min)}
	for i := range t.entries {
		t.entries[i] = noFunction
	}
	n := 0
	for i := range m.Elements {
		e := &m.Elements[i]
		if e.Mode != Active || e.Offset.Op != OpI32Const ||
			uint64(uint32(e.Offset.Bits))+uint64(e.Len()) > uint64(len(t.entries)) {
			return nil
		}
		at := t.entries[uint32(e.Offset.Bits):]
		n += copy(at, e.Functions)
		for j := range e.Exprs {
			switch e.Exprs[j].Op {
			case OpRefFunc:
				at[j] = uint32(e.Exprs[j].Bits)
				n++
			case OpRefNull:
				at[j] = noFunction
			default:
				return nil
			}
		}
	}
	if n < minimum || !onlyCalled(m, len(t.entries)) {
		return nil
	}
	return t
}

// onlyCalled reports whether the bodies contain call_indirect but no other instruction that uses a
// table and no ref.func, and whether the types of the calls, times entries, are at most
// maxFixedCases.
func onlyCalled(m *Module, entries int) bool {
	types := map[uint32]bool{}
	var in Instruction
	for i := range m.Code {
		for it := m.Code[i].Instructions(); it.Next(&in); {
			switch in.Op {
			case OpCallIndirect:
				types[in.X] = true
			case OpTableGet, OpTableSet, OpTableInit, OpElemDrop, OpTableCopy, OpTableGrow, OpTableSize, OpTableFill, OpRefFunc:
				return false
			}
		}
	}
	return len(types) > 0 && len(types)*entries <= maxFixedCases
}

// fixTable sets w.fixed and empties the module's table, if functions can replace the table.
func (w *rewriter) fixTable() {
	minimum := w.options.minFixed
	if minimum == 0 {
		minimum = minFixedEntries
	}
	if w.fixed = fix(w.in, minimum); w.fixed == nil {
		return
	}
	w.framer.through = true
	w.out.Elements = nil
	w.out.Tables[0].Size = Range{HasMax: true}
}

// callFixed returns the type and body of the function that replaces call_indirect with type typ.
// Its last parameter is the table index.
//
//	block
//	  block … block
//	    local.get $entry
//	    br_table …
//	  end
//	  local.get …  call $f  return
//	  …
//	end
//	local.get …  local.get $entry  call_indirect  ;; traps
func (w *rewriter) callFixed(typ uint32) (FuncType, []byte) {
	t := w.in.Types[typ]
	name := t.String()
	cases := map[uint32]uint32{} // label of the case of each function
	var order []uint32
	var labels []uint32
	for _, f := range w.fixed.entries {
		label := uint32(noFunction)
		if f != noFunction && w.typeOf(f).String() == name {
			if _, ok := cases[f]; !ok {
				cases[f] = uint32(len(order))
				order = append(order, f)
			}
			label = cases[f]
		}
		labels = append(labels, label)
	}
	for i, l := range labels {
		labels[i] = min(l, uint32(len(order))) // the outermost block ends before the trap
	}
	parameters := make([]uint32, len(t.Params))
	for i := range parameters {
		parameters[i] = uint32(i)
	}
	entry := uint32(len(parameters))

	a := assembler{}
	for range len(order) + 1 {
		a.block(OpBlock, BlockType{})
	}
	a.get(entry)
	a.index(OpBrTable, uint32(len(labels)))
	for _, l := range append(labels, uint32(len(order))) {
		a = binary.AppendUvarint(a, uint64(l))
	}
	for _, f := range order {
		a.op(OpEnd)
		a.get(parameters...)
		a.index(OpCall, w.function(f))
		a.op(OpReturn)
	}
	a.op(OpEnd)
	a.get(parameters...)
	a.get(entry)
	a.index(OpCallIndirect, typ, 0)
	a.op(OpEnd)
	return FuncType{append(slices.Clone(t.Params), I32), t.Results}, a
}

// typeOf returns the type of a function of the original.
func (w *rewriter) typeOf(function uint32) FuncType {
	if function >= w.imported {
		return w.in.Types[w.in.Functions[function-w.imported]]
	}
	n := uint32(0)
	for i := range w.in.Imports {
		if imp := &w.in.Imports[i]; imp.Kind == ExternalFunction {
			if n == function {
				return w.in.Types[imp.Type]
			}
			n++
		}
	}
	return FuncType{}
}
