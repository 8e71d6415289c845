package sandbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// FuncType is the type of a WebAssembly function.
type FuncType struct {
	Params, Results []api.ValueType
}

// String writes the type as (i32, i32) -> i64.
func (t FuncType) String() string {
	results := "()"
	switch len(t.Results) {
	case 0:
	case 1:
		results = api.ValueTypeName(t.Results[0])
	default:
		results = typeList(t.Results)
	}
	return typeList(t.Params) + " -> " + results
}

// Equal reports whether both types are the same.
func (t FuncType) Equal(o FuncType) bool {
	return string(t.Params) == string(o.Params) && string(t.Results) == string(o.Results)
}

func typeList(types []api.ValueType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = api.ValueTypeName(t)
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// Import is one function that a guest may import: a power.
type Import struct {
	// Module and Name are what the guest imports it as.
	Module, Name string

	// Params and Results are its type; a guest that imports it with another one
	// is refused.
	Params, Results []api.ValueType

	// Waits says that all it does is wait for something other than the processor
	// (a model, a tool, another guest), so that its time does not count as the
	// guest's. One that does work of its own beside uses [Guest.Wait].
	Waits bool

	// Quick says that it takes as long as a few instructions, so that the limits
	// are looked at once in some dozen calls and not after each.
	Quick bool

	// Func does it, on the goroutine of [Instance.Call]. The stack holds the
	// parameters when it is called and the results when it returns, each in 64
	// bits as wazero's api.Encode functions write them. Its context is that of
	// the call and must be handed on to calls of other guests. It has values of
	// the caller's context, and is done when the call must end.
	//
	// Func ends the guest with [Guest.Abort]. If it panics, the call ends with a
	// [Fault] of kind [FaultInternal].
	Func func(ctx context.Context, g *Guest, stack []uint64)
}

// Type is the import's type.
func (i Import) Type() FuncType { return FuncType{Params: i.Params, Results: i.Results} }

// Surface is what guests may import, and how their exports must be typed.
type Surface struct {
	// Name is what refusals call it, "ABI v1" say. Default "this host".
	Name string

	// Imports are the functions. WASI preview 1 is always there beside them (see
	// wasi.go) and cannot be replaced.
	Imports []Import

	// Exports returns, for a module with such imports, what its exports are held
	// against, or an error that refuses it. Nil: all exports are free.
	Exports func(imports []ImportInfo) (CheckExport, error)
}

// CheckExport tells which type an exported function of that name must have, and
// whether the surface knows the name at all. Exports that it does not know are
// free.
type CheckExport func(name string) (want FuncType, known bool)

// surface is a Surface made ready for looking things up.
type surface struct {
	name    string
	modules map[string]map[string]*Import
	exports func(imports []ImportInfo) (CheckExport, error)
}

func newSurface(s Surface) (*surface, error) {
	out := &surface{name: s.Name, exports: s.Exports, modules: map[string]map[string]*Import{}}
	if out.name == "" {
		out.name = "this host"
	}
	if out.exports == nil {
		free := func(string) (FuncType, bool) { return FuncType{}, false }
		out.exports = func([]ImportInfo) (CheckExport, error) { return free, nil }
	}
	for _, imp := range s.Imports {
		switch {
		case imp.Module == "" || imp.Name == "" || imp.Func == nil:
			return nil, fmt.Errorf("surface: import %q.%q needs a module, a name and a function", imp.Module, imp.Name)
		case imp.Module == wasiModule:
			return nil, fmt.Errorf("surface: import %s.%s: WASI is the sandbox's own", imp.Module, imp.Name)
		case out.modules[imp.Module][imp.Name] != nil:
			return nil, fmt.Errorf("surface: import %s.%s is there twice", imp.Module, imp.Name)
		}
		out.add(imp)
	}
	for _, imp := range wasiImports() {
		out.add(imp)
	}
	return out, nil
}

func (s *surface) add(imp Import) {
	if s.modules[imp.Module] == nil {
		s.modules[imp.Module] = map[string]*Import{}
	}
	s.modules[imp.Module][imp.Name] = &imp
}
