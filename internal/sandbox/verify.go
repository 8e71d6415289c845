package sandbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// ImportInfo is one function that a module imports: something it can do.
type ImportInfo struct {
	Module, Name string
	Type         FuncType
}

// ExportInfo is one thing that a module exports.
type ExportInfo struct {
	Name string
	Kind string   // "function", "memory", "table" or "global"
	Type FuncType // of a function
}

// shape is what the outside of a module looks like.
type shape struct {
	imports              []ImportInfo
	exports              []ExportInfo // sorted by name
	memoryMin, memoryMax uint64       // bytes; 4 GiB is the maximum of a module that declares none
}

// funcType is the type of an exported function.
func (m *shape) funcType(export string) (FuncType, bool) {
	i, ok := slices.BinarySearchFunc(m.exports, export, func(e ExportInfo, name string) int {
		return strings.Compare(e.Name, name)
	})
	if !ok || m.exports[i].Kind != "function" {
		return FuncType{}, false
	}
	return m.exports[i].Type, true
}

// shapeOf reads the outside off a decoded module.
func shapeOf(m *wasm.Module) (*shape, error) {
	s := &shape{memoryMax: maxMemoryBytes}
	for _, imp := range m.Imports {
		if imp.Kind != wasm.ExternalFunction {
			return nil, &RefusedError{
				Reason: fmt.Sprintf("imports the %v %s.%s, but only functions can be imported", imp.Kind, cut(imp.Module, 64), cut(imp.Name, 64)),
				Fix:    "let the module define and export its own memory, tables and globals",
			}
		}
		s.imports = append(s.imports, ImportInfo{imp.Module, imp.Name, funcTypeOf(m.Types[imp.Type])})
	}
	if m.Start != nil && int(*m.Start) < len(m.Imports) {
		return nil, &RefusedError{
			Reason: fmt.Sprintf("has the import %s as its start function", cut(s.imports[*m.Start].Name, 64)),
			Fix:    "start with a function of the module",
		}
	}
	for _, exp := range m.Exports {
		info := ExportInfo{Name: exp.Name, Kind: exp.Kind.String()}
		if t, ok := m.FunctionType(exp.Index); ok && exp.Kind == wasm.ExternalFunction {
			info.Type = funcTypeOf(t)
		}
		s.exports = append(s.exports, info)
	}
	slices.SortFunc(s.exports, func(a, b ExportInfo) int { return strings.Compare(a.Name, b.Name) })
	if len(m.Memories) > 0 {
		memory := m.Memories[0].Size
		s.memoryMin = uint64(memory.Min) * pageBytes
		if memory.HasMax {
			s.memoryMax = uint64(memory.Max) * pageBytes
		}
	}
	return s, nil
}

// funcTypeOf names the same types in wazero's words.
func funcTypeOf(t wasm.FuncType) FuncType {
	return FuncType{Params: valueTypes(t.Params), Results: valueTypes(t.Results)}
}

func valueTypes(types []wasm.ValueType) []api.ValueType {
	out := make([]api.ValueType, len(types))
	for i, t := range types {
		out[i] = api.ValueType(t) // both are the bytes of the binary format
	}
	return out
}

// boundTables sets a maximum for the tables that can grow without one. They are
// not under the limit of the memory.
func boundTables(m *wasm.Module, most uint32) {
	for i := range m.Tables {
		size := &m.Tables[i].Size
		if !size.HasMax {
			size.Max = size.Min
		}
		size.HasMax, size.Max = true, max(size.Min, min(size.Max, most))
	}
}

// verify holds a module's outside against the surface. It knows nothing of
// limits, which differ from load to load.
func (s *surface) verify(m *shape) error {
	for _, imp := range m.imports {
		if err := s.verifyImport(imp); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(m.exports, func(e ExportInfo) bool { return e.Name == "memory" && e.Kind == "memory" }) {
		return &RefusedError{
			Reason: `does not export its memory as "memory"`,
			Fix:    "in C: -Wl,--export-memory; in WebAssembly text: (memory (export \"memory\") 1)",
		}
	}
	check, err := s.exports(m.imports)
	if err != nil {
		return err
	}
	for _, exp := range m.exports {
		want, known := check(exp.Name)
		if exp.Name == initialize {
			want, known = FuncType{}, true
		}
		switch {
		case !known:
		case exp.Kind != "function":
			return &RefusedError{Reason: fmt.Sprintf("exports %s as a %s; want a function %v", exp.Name, exp.Kind, want)}
		case !exp.Type.Equal(want):
			return &RefusedError{Reason: fmt.Sprintf("%s: want %v, got %v", exp.Name, want, exp.Type)}
		}
	}
	return nil
}

func (s *surface) verifyImport(imp ImportInfo) error {
	functions, ok := s.modules[imp.Module]
	if !ok {
		return s.unknownModule(imp)
	}
	want, ok := functions[imp.Name]
	if !ok {
		names := make([]string, 0, len(functions))
		for name := range functions {
			names = append(names, name)
		}
		owner := s.name
		if imp.Module == wasiModule {
			owner = "WASI preview 1"
		}
		refused := &RefusedError{Reason: fmt.Sprintf("imports %s.%s, which %s does not have", imp.Module, cut(imp.Name, 64), owner)}
		if near := nearest(imp.Name, names); near != "" {
			refused.Fix = "did you mean " + near + "?"
		}
		return refused
	}
	if !want.Type().Equal(imp.Type) {
		return &RefusedError{Reason: fmt.Sprintf("imports %s.%s as %v, want %v", imp.Module, imp.Name, imp.Type, want.Type())}
	}
	return nil
}

// unknownModule explains an import of a module that the surface does not have.
// A name that differs from a known one in its version only gets an answer of
// its own, for that is what authors will meet.
func (s *surface) unknownModule(imp ImportInfo) error {
	module := cut(imp.Module, 64)
	family, version, versioned := cutVersion(imp.Module)
	modules := make([]string, 0, len(s.modules))
	for known := range s.modules {
		modules = append(modules, known)
		knownFamily, knownVersion, ok := cutVersion(known)
		if ok && versioned && family == knownFamily {
			return &RefusedError{
				Reason: fmt.Sprintf("imports %s: it asks for ABI version %d; this host speaks version %d", module, version, knownVersion),
				Fix:    fmt.Sprintf("build it with an SDK for version %d", knownVersion),
			}
		}
	}
	slices.Sort(modules)
	refused := &RefusedError{
		Reason: fmt.Sprintf("imports %s.%s, but %s has no module %s", module, cut(imp.Name, 64), s.name, module),
		Fix:    "there are " + strings.Join(modules, ", "),
	}
	switch {
	case imp.Module == "env" && imp.Name == "abort":
		refused.Fix = "AssemblyScript: compile with --use abort=<a function of yours>"
	case imp.Module == "env":
		refused.Fix = "a C function was declared but not linked in, or lacks its import_module attribute; " + refused.Fix
	case strings.HasPrefix(imp.Module, "wasi_snapshot_preview2"), strings.HasPrefix(imp.Module, "wasi:"):
		refused.Fix = "build it for WASI preview 1"
	case imp.Module == "gojs":
		refused.Fix = "build it with GOOS=wasip1, not GOOS=js"
	}
	return refused
}

// cutVersion takes the version off a module name that ends with _v and a number.
func cutVersion(module string) (family string, version int, ok bool) {
	i := strings.LastIndex(module, "_v")
	if i < 0 {
		return "", 0, false
	}
	version, err := strconv.Atoi(module[i+2:])
	return module[:i], version, err == nil
}

// nearest finds the name that is at most a third of its letters away from name.
func nearest(name string, names []string) string {
	if len(name) > 64 {
		return ""
	}
	slices.Sort(names)
	best, bestDistance := "", len(name)
	for _, candidate := range names {
		if d := distance(name, candidate); d < bestDistance && d*3 <= max(len(name), len(candidate)) {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, above+1, row[j]+1)
			diagonal = above
		}
	}
	return row[len(b)]
}
