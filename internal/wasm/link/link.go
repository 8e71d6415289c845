// Package link combines two WebAssembly modules into one, such as an engine and a script
// that was compiled for it.
//
// The input is two decoded modules. The result is a new module, which must be encoded and is as
// untrusted as its parts. The package imports only internal/wasm.
package link

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// Modules combines two modules that import functions of each other. It resolves the functions that
// main imports from module mainImports with the exports of part, and those that part imports from
// module partImports with the exports of main. Both modules must come from [wasm.Decode], and main
// must import only functions. part may contain only functions, and may import only functions and
// main's memory. Modules drops tables and globals that part declares, since compilers declare them
// by default. Instructions of part must not use them.
//
// The result exports the functions that part exports, except those that main imported. It also has
// the exports of main whose names are in keep. Modules returns an error if a module contains or
// imports anything else, or if an imported function is missing or has another type.
func Modules(main, part *wasm.Module, mainImports, partImports string, keep ...string) (*wasm.Module, error) {
	l := linker{main: main, part: part, out: *main}
	l.out.Types = slices.Concat(main.Types, part.Types)
	l.out.Imports, l.out.Exports, l.out.Code = nil, nil, nil
	if err := checkParts(main, part); err != nil {
		return nil, err
	}
	// Assign function numbers once all remaining imports are known.
	mainAt, mainWants := l.imports(main, mainImports, 0)
	partAt, partWants := l.imports(part, partImports, uint32(len(main.Types)))
	first := uint32(len(l.out.Imports))
	for range main.Functions {
		mainAt = append(mainAt, first)
		first++
	}
	for range part.Functions {
		partAt = append(partAt, first)
		first++
	}
	if err := supply(main, mainAt, mainWants, part, partAt); err != nil {
		return nil, err
	}
	if err := supply(part, partAt, partWants, main, mainAt); err != nil {
		return nil, err
	}
	for _, t := range part.Functions {
		l.out.Functions = append(l.out.Functions[:len(l.out.Functions):len(l.out.Functions)], t+uint32(len(main.Types)))
	}
	for i := range main.Code {
		l.out.Code = append(l.out.Code, wasm.Code{Locals: main.Code[i].Locals, Body: renumber(&main.Code[i], mainAt)})
	}
	for i := range part.Code {
		if err := checkLinkable(&part.Code[i]); err != nil {
			return nil, err
		}
		l.out.Code = append(l.out.Code, wasm.Code{Locals: part.Code[i].Locals, Body: renumber(&part.Code[i], partAt)})
	}
	l.tables(mainAt)
	l.exports(mainAt, partAt, mainWants, keep)
	return &l.out, nil
}

// checkParts returns an error if main or part has anything that Modules does not support, apart from
// instructions.
func checkParts(main, part *wasm.Module) error {
	if part.Start != nil || len(part.Data)+len(part.Elements)+len(part.Memories) > 0 {
		return fmt.Errorf("link: part must contain only functions, without memories, segments or a start function")
	}
	for _, imp := range main.Imports {
		if imp.Kind != wasm.ExternalFunction {
			return fmt.Errorf("link: main must import only functions, but imports %s.%s", imp.Module, imp.Name)
		}
	}
	for _, imp := range part.Imports {
		if imp.Kind != wasm.ExternalFunction && imp.Kind != wasm.ExternalMemory {
			return fmt.Errorf("link: part must import only functions and main's memory, but imports %s.%s", imp.Module, imp.Name)
		}
	}
	return nil
}

// A linker has the two modules that Modules combines, and the result.
type linker struct {
	main, part *wasm.Module
	out        wasm.Module
}

// imports adds the functions that m imports to the output, each once. It omits functions that m
// imports from the module named from, because the other module must supply them. types is the
// number of types in the output that precede those of m. The result at contains the new index of
// each function that m imports. The result wanted maps the position in at of each omitted function
// to the name of the function.
func (l *linker) imports(m *wasm.Module, from string, types uint32) (at []uint32, wanted map[int]string) {
	wanted = map[int]string{}
	for _, imp := range m.Imports {
		if imp.Kind != wasm.ExternalFunction {
			continue // part imports main's memory
		}
		if imp.Module == from {
			wanted[len(at)] = imp.Name
			at = append(at, 0)
			continue
		}
		known := slices.IndexFunc(
			l.out.Imports,
			func(o wasm.Import) bool { return o.Module == imp.Module && o.Name == imp.Name },
		)
		if known < 0 {
			known = len(l.out.Imports)
			imp.Type += types
			l.out.Imports = append(l.out.Imports, imp)
		}
		at = append(at, uint32(known))
	}
	return at, wanted
}

// supply resolves the wanted functions with the exports of the other module, and stores their new
// indices in at. It returns an error if an export is missing or has another type.
func supply(m *wasm.Module, at []uint32, wanted map[int]string, other *wasm.Module, otherAt []uint32) error {
	for i, name := range wanted {
		exp := other.Export(name)
		if exp == nil || exp.Kind != wasm.ExternalFunction {
			return fmt.Errorf("link: function %s is not exported", name)
		}
		want, _ := m.FunctionType(uint32(i))
		got, _ := other.FunctionType(exp.Index)
		if want.String() != got.String() {
			return fmt.Errorf("link: %s: want %v, got %v", name, want, got)
		}
		at[i] = otherAt[exp.Index]
	}
	return nil
}

// unsupported lists the instructions that part must not use, because they refer to globals, tables
// or segments.
var unsupported = []wasm.Opcode{
	wasm.OpGlobalGet, wasm.OpGlobalSet, wasm.OpCallIndirect, wasm.OpMemoryInit, wasm.OpDataDrop, wasm.OpElemDrop,
	wasm.OpTableGet, wasm.OpTableSet, wasm.OpTableInit, wasm.OpTableCopy, wasm.OpTableGrow, wasm.OpTableSize,
	wasm.OpTableFill,
}

// checkLinkable returns an error if a body uses anything that Modules does not support.
func checkLinkable(c *wasm.Code) error {
	var in wasm.Instruction
	for it := c.Instructions(); it.Next(&in); {
		if slices.Contains(unsupported, in.Op) {
			return fmt.Errorf("link: part must not use %s", in.Op)
		}
		if in.Block.HasIndex {
			return fmt.Errorf("link: part must not have blocks with several values")
		}
	}
	return nil
}

// renumber copies a body with new function indices.
func renumber(c *wasm.Code, at []uint32) []byte {
	b := make([]byte, 0, len(c.Body)+len(c.Body)/16)
	copied := 0
	var in wasm.Instruction
	for it := c.Instructions(); it.Next(&in); {
		if in.Op != wasm.OpCall && in.Op != wasm.OpRefFunc {
			continue
		}
		b = append(append(b, c.Body[copied:in.Start]...), byte(in.Op))
		b = binary.AppendUvarint(b, uint64(at[in.X]))
		copied = in.End
	}
	return append(b, c.Body[copied:]...)
}

// tables renumbers the functions in main's tables, globals and start function.
func (l *linker) tables(at []uint32) {
	move := func(c wasm.ConstExpr) wasm.ConstExpr {
		if c.Op == wasm.OpRefFunc {
			c.Bits = uint64(at[c.Bits])
		}
		return c
	}
	l.out.Globals = slices.Clone(l.main.Globals)
	for i := range l.out.Globals {
		l.out.Globals[i].Init = move(l.out.Globals[i].Init)
	}
	l.out.Elements = slices.Clone(l.main.Elements)
	for i := range l.out.Elements {
		e := &l.out.Elements[i]
		e.Functions, e.Exprs = slices.Clone(e.Functions), slices.Clone(e.Exprs)
		for j, f := range e.Functions {
			e.Functions[j] = at[f]
		}
		for j, x := range e.Exprs {
			e.Exprs[j] = move(x)
		}
	}
	if l.main.Start != nil {
		start := at[*l.main.Start]
		l.out.Start = &start
	}
}

// exports adds to the output the exports of main whose names are in keep. It also adds the
// functions that part exports, except those that inside lists, because they are only for main.
func (l *linker) exports(mainAt, partAt []uint32, inside map[int]string, keep []string) {
	for _, exp := range l.main.Exports {
		if slices.Contains(keep, exp.Name) {
			if exp.Kind == wasm.ExternalFunction {
				exp.Index = mainAt[exp.Index]
			}
			l.out.Exports = append(l.out.Exports, exp)
		}
	}
	used := map[string]bool{}
	for _, name := range inside {
		used[name] = true
	}
	for _, exp := range l.part.Exports {
		if exp.Kind == wasm.ExternalFunction && !used[exp.Name] {
			exp.Index = partAt[exp.Index]
			l.out.Exports = append(l.out.Exports, exp)
		}
	}
}
