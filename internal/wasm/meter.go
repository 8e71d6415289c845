package wasm

import (
	"slices"
	"strconv"
	"strings"
)

// Names that Meter adds to a module. A guest must not import from ReservedModule and must
// not export a name that begins with ReservedPrefix.
const (
	ReservedModule = "agent_runner_v1"
	ReservedPrefix = ReservedModule + "."
	// RefuelImport is the function (fuel i64, depth i64) -> (fuel i64) of ReservedModule.
	// The module calls it when fuel or depth has become negative, and after each
	// memory.grow by at least one page. It traps, or returns the fuel of the next slice,
	// which may be less than the fuel that was left.
	RefuelImport = "refuel"
	// FuelExport is a mutable i64 with the remaining fuel. The host sets it before a call
	// and reads it afterwards. It can be negative then, by the work since the last check.
	FuelExport = ReservedPrefix + "fuel"
	// DepthExport is a mutable i64 with the remaining stack in bytes, by an estimate that
	// frame.go explains. The host sets it before each call, including those after a trap.
	DepthExport = ReservedPrefix + "depth"
)

// MeterVersion identifies the output of Meter. It must change whenever Meter's output for
// some module changes, because it is part of the key of cached machine code.
const MeterVersion = 8

// GlobalExport returns the name under which Meter exports the mutable global with the given index.
// Meter does not export globals of vector or reference types.
func GlobalExport(index int) string { return ReservedPrefix + "global." + strconv.Itoa(index) }

// MeterOptions configures Meter.
type MeterOptions struct {
	// Depth is the initial value of the stack counter in bytes. It bounds the stack of the start
	// function.
	Depth int64
	// MemoryPages lowers the maximum of the memory, in pages of 64 KiB. A growth beyond it fails
	// like one beyond the module's own maximum. The maximum is never below the module's minimum.
	// Zero leaves the maximum unchanged.
	MemoryPages uint32
	// FixTables sets the maximum of tables without a maximum to their minimum, so that
	// they cannot grow.
	FixTables bool

	minFixed int // defaults to minFixedEntries; set by tests
}

// Meter returns a copy of a module that counts its work and that the host can stop. The
// module must come from Decode, which rejects indices out of range. Otherwise, such an
// index could refer to one of the added counters.
//
// Each instruction costs one fuel; nop and structure markers are free. Bulk instructions
// and memory.grow cost one fuel for each 16 bytes, and merges with very many moved locals
// cost more (fuelcheck.go). Fuel is charged at the latest before the work is done;
// charge.go explains where. Fuel is checked at the entry of each function except small
// leaf functions, at each loop iteration, and in long code without either (fuelcheck.go).
// After the fuel is used up, at most about 1,000 more fuel, or one piece of 256 KiB of a
// bulk instruction, is executed.
//
// Meter also replaces jumps of Go's compiler with direct ones (dispatch.go), instructions that
// wazero miscompiles (workaround.go), and calls through a large constant table (table.go).
// Otherwise the module behaves as before. The error is an *Error if the module uses a reserved
// name, or would need too many helpers or operands at fuel checks.
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

// reserved rejects modules that use a name reserved for the host.
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

// rewriter builds the metered module out from in.
type rewriter struct {
	in, out    *Module
	options    MeterOptions
	imported   uint32 // number of imported functions of the original
	fuel       uint32 // index of the global with the remaining fuel
	depth      uint32 // index of the global with the remaining stack
	pause      uint32 // index of the function that calls RefuelImport
	added      map[string]uint32
	tables     []Table
	types      map[string]uint32
	helpers    []helper
	planner    planner
	workaround workaround
	framer     framer
	// replacement is the replacement of the current instruction.
	replacement assembler
	frame       int64       // frame size of the current function
	held        int         // number of operands on the stack at fuel checks so far, over all bodies
	fixed       *fixedTable // the entries of the table that functions replace; nil if the module keeps its tables
	err         *Error
}

func newRewriter(m *Module, o MeterOptions) *rewriter {
	w := &rewriter{in: m, options: o, added: map[string]uint32{}, types: map[string]uint32{}}
	w.imported = uint32(m.ImportedFunctions())
	w.workaround.operands, w.framer.operands = newOperands(m), newOperands(m)
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

// typeIndex returns the index of a type. It adds the type if necessary.
func (w *rewriter) typeIndex(t FuncType) uint32 {
	i, ok := w.types[t.String()]
	if !ok {
		i = uint32(len(w.out.Types))
		w.out.Types = append(w.out.Types, t)
		w.types[t.String()] = i
	}
	return i
}

// function returns the new index of a function of the original.
func (w *rewriter) function(index uint32) uint32 {
	if index < w.imported {
		return index
	}
	return index + 1
}

// sizes applies the options' maxima to memory and tables.
func (w *rewriter) sizes() {
	out := w.out
	out.Memories, out.Tables = slices.Clone(out.Memories), slices.Clone(out.Tables)
	for i := range out.Memories {
		if s, limit := &out.Memories[i].Size, w.options.MemoryPages; limit != 0 && (!s.HasMax || s.Max > limit) {
			s.Max, s.HasMax = max(limit, s.Min), true
		}
	}
	for i := range out.Tables {
		if s := &out.Tables[i].Size; w.options.FixTables && !s.HasMax {
			s.Max, s.HasMax = s.Min, true
		}
	}
	w.tables = out.TableTypes()
}

// maxMemory returns the maximum size of the memory in pages.
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

// references updates the function indices outside of bodies.
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

// exports updates the indices of the exported functions. It also exports the counters and mutable
// globals that the host accesses.
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
