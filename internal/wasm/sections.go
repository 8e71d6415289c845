package wasm

import "slices"

func (d *decoder) types() {
	n, values := d.count("types", d.limits.Types, 3), uint64(0)
	d.m.Types = slices.Grow(d.m.Types, n)
	for range n {
		at := d.pos
		switch form := d.u8("the form of a type"); {
		case d.err != nil:
			return
		case form == 0x60:
		case form == 0x5f, form == 0x5e, form == 0x50, form == 0x4f, form == 0x4e:
			d.unsupported(at, "garbage collection")
			return
		default:
			d.failAt(at, Malformed, "type", uint64(form), 0x60, "a type has form %#x, want 0x60 for a function", form)
			return
		}
		t := FuncType{
			Params:  d.valueTypes("parameters of a type", d.limits.Params),
			Results: d.valueTypes("results of a type", d.limits.Results),
		}
		values += uint64(len(t.Params) + len(t.Results))
		if values > uint64(d.limits.TypeValues) && d.err == nil {
			d.overLimit(at, "parameters and results", values, d.limits.TypeValues, " for all types")
		}
		d.m.Types = append(d.m.Types, t)
	}
}

func (d *decoder) valueTypes(what string, limit int) []ValueType {
	n := d.count(what, limit, 1)
	if n == 0 {
		return nil
	}
	types := make([]ValueType, n)
	for i := range types {
		types[i] = d.valueType("the type")
	}
	return types
}

func (d *decoder) imports() {
	n := d.count("imports", d.limits.Imports, 4)
	d.m.Imports = slices.Grow(d.m.Imports, n)
	for i := 0; i < n && d.err == nil; i++ {
		at := d.pos
		imp := Import{
			Module: d.name("module name of an import", d.limits.NameBytes),
			Name:   d.name("name of an import", d.limits.NameBytes),
		}
		if imp.Module == "" && d.err == nil {
			d.failAt(at, Invalid, "import", uint64(i), 0, "import %d (%q) has an empty module name", i, imp.Name)
		}
		d.importKind(&imp)
		d.m.Imports = append(d.m.Imports, imp)
	}
	d.imported.functions, d.imported.globals = len(d.functionTypes), len(d.globalTypes)
}

func (d *decoder) importKind(imp *Import) {
	at := d.pos
	imp.Kind = External(d.u8("the kind of an import"))
	if d.err != nil {
		return
	}
	switch imp.Kind {
	case ExternalFunction:
		imp.Type = d.typeIndex()
		d.functionTypes = append(d.functionTypes, imp.Type)
	case ExternalTable:
		imp.Table = d.table()
	case ExternalMemory:
		imp.Memory = d.memory()
	case ExternalGlobal:
		imp.Global = d.globalType()
		d.addGlobal(at, imp.Global)
	default:
		d.unknownKind(at, "import", byte(imp.Kind))
	}
}

func (d *decoder) unknownKind(at int, what string, kind byte) {
	if kind == 4 {
		d.unsupported(at, "exception handling")
		return
	}
	d.failAt(
		at,
		Malformed,
		"kind of an "+what,
		uint64(kind),
		3,
		"an %s has kind %#x, want a function, table, memory or global",
		what,
		kind,
	)
}

func (d *decoder) typeIndex() uint32 {
	at := d.pos
	t := d.u32("the index of a type")
	d.index(at, "type", t, len(d.m.Types))
	return t
}

func (d *decoder) functions() {
	n := d.count("functions", d.limits.Functions, 1)
	d.m.Functions = slices.Grow(d.m.Functions, n)
	for i := 0; i < n && d.err == nil; i++ {
		d.m.Functions = append(d.m.Functions, d.typeIndex())
	}
	d.functionTypes = append(d.functionTypes, d.m.Functions...)
}

func (d *decoder) tables() {
	n := d.count("tables", d.limits.Tables, 3)
	for i := 0; i < n && d.err == nil; i++ {
		d.m.Tables = append(d.m.Tables, d.table())
	}
}

func (d *decoder) table() Table {
	at := d.pos
	if at < len(d.b) && d.b[at] == 0x40 {
		d.unsupported(at, "typed function references")
		return Table{}
	}
	t := Table{Type: d.refType("the type of a table")}
	t.Size = d.sizes("table", 1<<32-1)
	if d.tableEntries += uint64(t.Size.Min); d.tableEntries > uint64(d.limits.TableEntries) && d.err == nil {
		d.overLimit(at, "table entries", d.tableEntries, d.limits.TableEntries, " as the sum of all tables' minimum")
	}
	if d.tableTypes = append(d.tableTypes, t); len(d.tableTypes) > d.limits.Tables && d.err == nil {
		d.overLimit(at, "tables", uint64(len(d.tableTypes)), d.limits.Tables, "")
	}
	return t
}

func (d *decoder) memories() {
	n := d.count("memories", 1<<32-1, 2)
	for i := 0; i < n && d.err == nil; i++ {
		d.m.Memories = append(d.m.Memories, d.memory())
	}
}

// maxPages is the number of pages that 32 bits can address.
const maxPages = 1 << 16

func (d *decoder) memory() Memory {
	at := d.pos
	if d.memoryCount++; d.memoryCount > 1 {
		d.unsupported(at, "multiple memories")
		return Memory{}
	}
	m := Memory{Size: d.sizes("memory", maxPages)}
	if uint64(m.Size.Min) > uint64(d.limits.MemoryPages) && d.err == nil {
		d.overLimit(at, "pages as the memory's minimum", uint64(m.Size.Min), d.limits.MemoryPages, " (64 KiB each)")
	}
	return m
}

// sizes reads the minimum and maximum size of a memory or table. The name, "memory" or "table", is
// for errors, and limit is the largest valid minimum.
func (d *decoder) sizes(name string, limit uint64) (s Range) {
	at := d.pos
	switch flags := d.u8("the flags of a " + name); {
	case d.err != nil:
		return s
	case flags <= 1:
		s.HasMax = flags == 1
	case flags <= 3 && name == "memory":
		d.unsupported(at, "threads (a shared memory)")
	case flags >= 4 && flags <= 7:
		d.unsupported(at, "64-bit memory")
	case flags >= 8 && flags <= 15 && name == "memory":
		d.unsupported(at, "custom page sizes")
	default:
		d.failAt(at, Malformed, "flags", uint64(flags), 1, "the flags of a %s are %#x, want 0 or 1", name, flags)
	}
	at = d.pos
	if s.Min = d.u32("the minimum of a " + name); uint64(s.Min) > limit {
		d.tooLarge(at, name, s.Min, limit)
	}
	if !s.HasMax || d.err != nil {
		return s
	}
	at = d.pos
	s.Max = d.u32("the maximum of a " + name)
	switch {
	case d.err != nil:
	case uint64(s.Max) > limit:
		d.tooLarge(at, name, s.Max, limit)
	case s.Max < s.Min:
		d.failAt(
			at,
			Invalid,
			"maximum of a "+name,
			uint64(s.Max),
			uint64(s.Min),
			"the maximum of a %s is %s, less than its minimum of %s",
			name,
			grouped(uint64(s.Max)),
			grouped(uint64(s.Min)),
		)
	}
	return s
}

func (d *decoder) tooLarge(at int, what string, size uint32, limit uint64) {
	d.failAt(
		at,
		Invalid,
		"size of a "+what,
		uint64(size),
		limit,
		"a %s of %s is more than the %s that 32 bits can address",
		what,
		grouped(uint64(size)),
		grouped(limit),
	)
}

func (d *decoder) globals() {
	n := d.count("globals", d.limits.Globals, 4)
	d.m.Globals = slices.Grow(d.m.Globals, n)
	for i := 0; i < n && d.err == nil; i++ {
		at := d.pos
		g := Global{GlobalType: d.globalType()}
		g.Init = d.constExpr(g.Type)
		d.addGlobal(at, g.GlobalType)
		d.m.Globals = append(d.m.Globals, g)
	}
}

func (d *decoder) addGlobal(at int, t GlobalType) {
	if t.Mutable {
		d.mutableGlobals++
	}
	if d.globalTypes = append(d.globalTypes, t); len(d.globalTypes) > d.limits.Globals && d.err == nil {
		d.overLimit(at, "globals", uint64(len(d.globalTypes)), d.limits.Globals, "")
	}
}

func (d *decoder) globalType() GlobalType {
	t := GlobalType{Type: d.valueType("the type of a global")}
	at := d.pos
	switch flags := d.u8("the mutability of a global"); {
	case d.err != nil:
	case flags <= 1:
		t.Mutable = flags == 1
	case flags <= 3:
		d.unsupported(at, "threads (a shared global)")
	default:
		d.failAt(
			at,
			Malformed,
			"mutability of a global",
			uint64(flags),
			1,
			"the mutability of a global is %#x, want 0 or 1",
			flags,
		)
	}
	return t
}

func (d *decoder) exports() {
	n := d.count("exports", d.limits.Exports, 3)
	d.m.Exports = slices.Grow(d.m.Exports, n)
	seen := make(map[string]bool, n)
	for i := 0; i < n && d.err == nil; i++ {
		at := d.pos
		e := Export{Name: d.name("name of an export", d.limits.NameBytes)}
		if seen[e.Name] && d.err == nil {
			d.failAt(at, Invalid, "export", uint64(i), 0, "duplicate export %q", e.Name)
		}
		seen[e.Name] = true
		d.exportTarget(&e)
		d.m.Exports = append(d.m.Exports, e)
	}
}

func (d *decoder) exportTarget(e *Export) {
	at := d.pos
	e.Kind = External(d.u8("the kind of an export"))
	if d.err == nil && e.Kind > ExternalGlobal {
		d.unknownKind(at, "export", byte(e.Kind))
	}
	at = d.pos
	e.Index = d.u32("the index of an export")
	switch e.Kind {
	case ExternalFunction:
		d.index(at, "function", e.Index, len(d.functionTypes))
		d.refer(e.Index)
	case ExternalTable:
		d.index(at, "table", e.Index, len(d.tableTypes))
	case ExternalMemory:
		d.index(at, "memory", e.Index, d.memoryCount)
	case ExternalGlobal:
		d.index(at, "global", e.Index, len(d.globalTypes))
	}
}

// refer records that a function is referenced outside of function bodies, which allows
// ref.func for it.
func (d *decoder) refer(function uint32) {
	if d.referable == nil {
		d.referable = make([]bool, len(d.functionTypes))
	}
	if d.err == nil {
		d.referable[function] = true
	}
}

func (d *decoder) start() {
	at := d.pos
	f := d.u32("the index of the start function")
	d.index(at, "function", f, len(d.functionTypes))
	if d.err != nil {
		return
	}
	if t := d.m.Types[d.functionTypes[f]]; len(t.Params)+len(t.Results) > 0 {
		d.failAt(at, Invalid, "start function", uint64(f), 0, "the start function %d is of type %s, want () -> ()", f, t)
	}
	d.m.Start = &f
}

func (d *decoder) dataCount() {
	d.m.HasDataCount = true
	at := d.pos
	n := d.u32("the number of data segments")
	if uint64(n) > uint64(d.limits.DataSegments) {
		d.overLimit(at, "data segments", uint64(n), d.limits.DataSegments, "")
	}
	d.announced = int(n)
}
