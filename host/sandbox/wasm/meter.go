package wasm

import (
	"slices"
	"strconv"
	"strings"
)

// Names that Meter adds to a module. A guest may neither import from
// ReservedModule nor export a name that begins with ReservedPrefix.
const (
	ReservedModule = "agent_runner_v1"
	ReservedPrefix = ReservedModule + "."
	// RefuelImport is a function (fuel i64, depth i64) -> (fuel i64) of
	// ReservedModule. It is called when fuel or depth has become negative, and
	// after memory.grow of more than nothing. It traps, or returns the fuel to go
	// on with, which may be less than what was left: what it adds, or takes away,
	// makes it another slice.
	RefuelImport = "refuel"
	// FuelExport is a mutable i64: the fuel left. The host sets it before a
	// call and reads it afterwards; it may then be negative by what ran
	// since the last check.
	FuelExport = ReservedPrefix + "fuel"
	// DepthExport is a mutable i64: the bytes of stack left, as estimated
	// from above (frame.go). The host sets it before each call that it
	// makes, also after one that trapped.
	DepthExport = ReservedPrefix + "depth"
)

// MeterVersion changes whenever Meter writes something else for the same
// module, so that what was compiled before is not taken for it.
const MeterVersion = 7

// GlobalExport is the name under which Meter exports the mutable global with
// that index, unless it is of a type that is no number.
func GlobalExport(index int) string { return ReservedPrefix + "global." + strconv.Itoa(index) }

// MeterOptions say what Meter is to build into a module.
type MeterOptions struct {
	// Depth is what the stack counter holds when the module is instantiated,
	// in bytes. It bounds the start function.
	Depth int64
	// MemoryPages lowers the maximum of the memory, in pages of 64 KiB. A
	// growth beyond it fails as one beyond the module's own maximum does. 0
	// leaves it as it is.
	MemoryPages uint32
	// FixTables gives tables without a maximum their minimum as one, so that
	// they cannot grow.
	FixTables bool

	leastFixed int // for tests: see table.go
}

// Meter returns a copy of a module that counts its work and stops when told to.
// The module must come from Decode, which has to see it first: an index that
// the original does not have would otherwise be one of a counter.
//
// Fuel is charged one for each instruction (free are nop and what only marks
// structure), for what bulk instructions and memory.grow move one for each 16
// bytes, and for locals that have to be moved where ways meet, if they are very many
// (look.go). charge.go tells where it is charged: never later than the work is
// done. It is looked at where a function begins, unless that is a small leaf, where a
// loop turns, and where neither was for long (look.go); so no more than some 1,000
// fuel, or one piece of 256 KiB of a bulk instruction, runs after it is used up. Jumps of
// Go's compiler are made direct, see dispatch.go, and a select of floats is
// written so that wazero compiles it right, see choose.go. Calls by a large table that
// nothing can change go another way, see table.go. Beyond that the module
// does what it did before.
func Meter(m *Module, o MeterOptions) (*Module, error) {
	if err := reserved(m); err != nil {
		return nil, err
	}
	w := newRewriter(m, o)
	w.code()
	if w.err != nil {
		return nil, w.err
	}
	return w.out, nil
}

// reserved refuses names that are the host's.
func reserved(m *Module) error {
	for i := range m.Imports {
		if m.Imports[i].Module == ReservedModule {
			return reservedName("import", m.Imports[i].Module+"."+m.Imports[i].Name)
		}
	}
	for i := range m.Exports {
		if strings.HasPrefix(m.Exports[i].Name, ReservedPrefix) {
			return reservedName("export", m.Exports[i].Name)
		}
	}
	return nil
}

func reservedName(section, name string) error {
	return &Error{Kind: Invalid, Section: section, Function: -1, Thing: "reserved name",
		text: "the name " + strconv.Quote(name) + " is reserved for the host; choose another"}
}

// rewriter puts the metered module together.
type rewriter struct {
	in, out  *Module
	options  MeterOptions
	imported uint32 // functions that the original imports
	fuel     uint32 // global
	depth    uint32 // global
	pause    uint32 // function that calls the import
	added    map[string]uint32
	tables   []Table
	types    map[string]uint32
	helpers  []helper
	planner  planner
	chooser  chooser
	framer   framer
	// replacement is what stands for the instruction at hand.
	replacement assembler
	frame       int64       // of the function at hand
	held        int         // operands at looks so far
	fixed       *fixedTable // nil: tables stay as they are
	err         *Error
}

func newRewriter(m *Module, o MeterOptions) *rewriter {
	w := &rewriter{in: m, options: o, added: map[string]uint32{}, types: map[string]uint32{}}
	w.imported = uint32(m.ImportedFunctions())
	w.chooser.operands, w.framer.operands = newOperands(m), newOperands(m)
	globals := m.GlobalTypes()
	w.fuel, w.depth = uint32(len(globals)), uint32(len(globals))+1
	for _, g := range globals {
		if g.Mutable {
			w.planner.globals++
		}
	}

	out := *m
	w.out = &out
	out.Types = slices.Clone(m.Types)
	for i := range m.Types {
		w.types[m.Types[i].String()] = uint32(i)
	}
	out.Imports = append(slices.Clone(m.Imports), Import{
		Module: ReservedModule, Name: RefuelImport,
		Type: w.typeIndex(FuncType{[]ValueType{I64, I64}, []ValueType{I64}}),
	})
	out.Functions = slices.Clone(m.Functions)
	out.Globals = append(slices.Clone(m.Globals),
		Global{GlobalType{I64, true}, ConstExpr{Op: OpI64Const}},
		Global{GlobalType{I64, true}, ConstExpr{Op: OpI64Const, Bits: uint64(o.Depth)}},
	)
	w.sizes()
	w.fixTable()
	w.references()
	w.exports(globals)
	return w
}

// typeIndex returns the index of a type, and adds it if there is none.
func (w *rewriter) typeIndex(t FuncType) uint32 {
	i, ok := w.types[t.String()]
	if !ok {
		i = uint32(len(w.out.Types))
		w.out.Types = append(w.out.Types, t)
		w.types[t.String()] = i
	}
	return i
}

// function is the new index of a function of the original.
func (w *rewriter) function(index uint32) uint32 {
	if index < w.imported {
		return index
	}
	return index + 1
}

// sizes gives memory and tables the maxima of the options.
func (w *rewriter) sizes() {
	out := w.out
	out.Memories, out.Tables = slices.Clone(out.Memories), slices.Clone(out.Tables)
	for i := range out.Memories {
		if s, most := &out.Memories[i].Size, w.options.MemoryPages; most != 0 && (!s.HasMax || s.Max > most) {
			s.Max, s.HasMax = max(most, s.Min), true
		}
	}
	for i := range out.Tables {
		if s := &out.Tables[i].Size; w.options.FixTables && !s.HasMax {
			s.Max, s.HasMax = s.Min, true
		}
	}
	w.tables = out.TableTypes()
}

// maxMemory is the size in pages beyond which the memory cannot grow.
func (w *rewriter) maxMemory() uint32 {
	size := Range{}
	for i := range w.out.Imports {
		if imp := &w.out.Imports[i]; imp.Kind == ExternalMemory {
			size = imp.Memory.Size
		}
	}
	for i := range w.out.Memories {
		size = w.out.Memories[i].Size
	}
	if size.HasMax {
		return size.Max
	}
	return maxPages
}

// references moves the indices of functions outside of bodies.
func (w *rewriter) references() {
	out := w.out
	for i := range out.Globals {
		w.moveConst(&out.Globals[i].Init)
	}
	if out.Start != nil {
		start := w.function(*out.Start)
		out.Start = &start
	}
	out.Elements = slices.Clone(out.Elements)
	for i := range out.Elements {
		e := &out.Elements[i]
		e.Functions, e.Exprs = slices.Clone(e.Functions), slices.Clone(e.Exprs)
		for j := range e.Functions {
			e.Functions[j] = w.function(e.Functions[j])
		}
		for j := range e.Exprs {
			w.moveConst(&e.Exprs[j])
		}
	}
}

func (w *rewriter) moveConst(c *ConstExpr) {
	if c.Op == OpRefFunc {
		c.Bits = uint64(w.function(uint32(c.Bits)))
	}
}

// exports moves the exported functions and adds the host's names.
func (w *rewriter) exports(globals []GlobalType) {
	exports := slices.Clone(w.out.Exports)
	for i := range exports {
		if exports[i].Kind == ExternalFunction {
			exports[i].Index = w.function(exports[i].Index)
		}
	}
	exports = append(exports, Export{FuelExport, ExternalGlobal, w.fuel}, Export{DepthExport, ExternalGlobal, w.depth})
	for i, g := range globals {
		if g.Mutable && g.Type != V128 && !g.Type.IsReference() {
			exports = append(exports, Export{GlobalExport(i), ExternalGlobal, uint32(i)})
		}
	}
	w.out.Exports = exports
}
