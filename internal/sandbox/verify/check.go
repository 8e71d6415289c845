// Package verify decides whether a module fits a host.
//
// [OutlineOf] reads the imports, exports and memory of a decoded module, and
// [Surface.Verify] compares them with what the host offers and expects. A module that does
// not fit is rejected with a [*RefusedError], which names the mistake and, where possible,
// a fix.
//
// The package depends on internal/wasm, internal/suggest and wazero's value types. It depends neither on what the
// functions do nor on how modules are compiled.
package verify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/suggest"
)

const (
	// Initialize is the export with which a toolchain initializes a reactor module.
	Initialize = "_initialize"

	// WASIModule is the name under which modules import WASI preview 1.
	WASIModule = "wasi_snapshot_preview1"
)

// CheckExport returns the type that an exported function of this name must have, and whether the host defines an
// export of the name. Other exports may have any type.
type CheckExport func(name string) (want FuncType, known bool)

// Surface lists what modules can import and the types that their exports must have.
type Surface struct {
	name    string
	imports map[string]map[string]FuncType // by module and name
	exports func(imports []ImportInfo) (CheckExport, error)
}

// NewSurface returns a surface. The name appears in messages. exports returns the check for
// the exports of a module with these imports, or an error that rejects the module; if it is
// nil, no exports are restricted.
func NewSurface(name string, exports func(imports []ImportInfo) (CheckExport, error)) *Surface {
	if exports == nil {
		free := func(string) (FuncType, bool) { return FuncType{}, false }
		exports = func([]ImportInfo) (CheckExport, error) { return free, nil }
	}
	return &Surface{name: name, imports: map[string]map[string]FuncType{}, exports: exports}
}

// Add adds a function that modules can import. It reports false if the surface has a
// function of that name.
func (s *Surface) Add(imp ImportInfo) bool {
	if s.imports[imp.Module] == nil {
		s.imports[imp.Module] = map[string]FuncType{}
	}
	if _, ok := s.imports[imp.Module][imp.Name]; ok {
		return false
	}
	s.imports[imp.Module][imp.Name] = imp.Type
	return true
}

// Verify returns a [*RefusedError], or the error of the surface's check of exports, if a module
// with this outline does not fit the surface. It does not check Limits, which differ from load to
// load.
func (s *Surface) Verify(o *Outline) error {
	for _, imp := range o.Imports {
		if err := s.verifyImport(imp); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(o.Exports, func(e ExportInfo) bool { return e.Name == "memory" && e.Kind == "memory" }) {
		return &RefusedError{
			Reason: `does not export its memory as "memory"`,
			Fix:    "in C: -Wl,--export-memory; in WebAssembly text: (memory (export \"memory\") 1)",
		}
	}
	check, err := s.exports(o.Imports)
	if err != nil {
		return err
	}
	for _, exp := range o.Exports {
		want, known := check(exp.Name)
		if exp.Name == Initialize {
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

func (s *Surface) verifyImport(imp ImportInfo) error {
	functions, ok := s.imports[imp.Module]
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
		if imp.Module == WASIModule {
			owner = "WASI preview 1"
		}
		refused := &RefusedError{
			Reason: fmt.Sprintf("imports %s.%s, which %s does not have", imp.Module, text.Cut(imp.Name, 64), owner),
		}
		if near := nearest(imp.Name, names); near != "" {
			refused.Fix = "did you mean " + near + "?"
		}
		return refused
	}
	if !want.Equal(imp.Type) {
		return &RefusedError{Reason: fmt.Sprintf("imports %s.%s as %v, want %v", imp.Module, imp.Name, imp.Type, want)}
	}
	return nil
}

// unknownModule returns the error for an import from a module that the surface does not have. If
// the surface has another version of the module, the error says so.
func (s *Surface) unknownModule(imp ImportInfo) error {
	module := text.Cut(imp.Module, 64)
	family, version, versioned := cutVersion(imp.Module)
	modules := make([]string, 0, len(s.imports))
	for known := range s.imports {
		modules = append(modules, known)
		knownFamily, knownVersion, ok := cutVersion(known)
		if ok && versioned && family == knownFamily {
			return &RefusedError{
				Reason: fmt.Sprintf("imports %s: it asks for ABI version %d; this host speaks version %d",
					module, version, knownVersion),
				Fix: fmt.Sprintf("build it with an SDK for version %d", knownVersion),
			}
		}
	}
	slices.Sort(modules)
	refused := &RefusedError{
		Reason: fmt.Sprintf("imports %s.%s, but %s has no module %s", module, text.Cut(imp.Name, 64), s.name, module),
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

// cutVersion splits a module name that ends with _v and a number. ok is false for other names.
func cutVersion(module string) (family string, version int, ok bool) {
	i := strings.LastIndex(module, "_v")
	if i < 0 {
		return "", 0, false
	}
	version, err := strconv.Atoi(module[i+2:])
	return module[:i], version, err == nil
}

// nearest returns the candidate in names with the smallest distance from name, or "" if that
// distance exceeds a third of the length of the longer of the two, or if name has more than 64
// bytes.
func nearest(name string, names []string) string {
	if len(name) > 64 {
		return ""
	}
	slices.Sort(names)
	best, bestDistance := "", len(name)
	for _, candidate := range names {
		if d := suggest.Distance(name, candidate); d < bestDistance && d*3 <= max(len(name), len(candidate)) {
			best, bestDistance = candidate, d
		}
	}
	return best
}
