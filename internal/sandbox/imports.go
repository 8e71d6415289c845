package sandbox

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/sandbox/wasi"
)

// Import is a function that a guest can import.
type Import struct {
	// Module and Name identify the function in a guest's imports.
	Module, Name string

	// Params and Results are its type. A guest that imports it with another type is
	// rejected.
	Params, Results []api.ValueType

	// Waits reports that the function only waits for something other than the processor
	// (a model, a tool, another guest), so that its time does not count as the guest's.
	// A function that also works itself uses [Guest.Wait] instead.
	Waits bool

	// Quick reports that the function takes as long as a few instructions, so that the
	// limits are checked once in some dozens of calls and not after each.
	Quick bool

	// Func does the work, on the goroutine of [Instance.Call]. The stack holds the parameters when
	// Func is called and the results when it returns, each in 64 bits as wazero's api.Encode
	// functions encode them. The context has the values of the caller's context and is done when
	// the call must end. It must be passed on to calls of other guests.
	//
	// Func ends the guest with [Guest.Abort]. If it panics, the call ends with a [FaultError] of
	// kind [FaultInternal].
	Func func(ctx context.Context, g *Guest, stack []uint64)
}

// Type returns the type of the import.
func (i *Import) Type() verify.FuncType { return verify.FuncType{Params: i.Params, Results: i.Results} }

// Surface lists what guests can import and the types that their exports must have.
type Surface struct {
	// Name names the surface in messages, such as "ABI v1". The default is "this host".
	Name string

	// Imports are the functions. WASI preview 1 is always present and cannot be replaced.
	Imports []Import

	// Exports returns, for a module with these imports, the check for its exports, or an
	// error that rejects the module. If Exports is nil, any exports are allowed.
	Exports func(imports []verify.ImportInfo) (verify.CheckExport, error)
}

// surface is a [Surface] whose imports, and those of WASI, can be looked up by module and name.
type surface struct {
	types   *verify.Surface
	imports map[string]map[string]*Import // by module and name
}

// newSurface returns s with the functions of WASI added. It returns an error if an import is
// incomplete, is a duplicate, or has the module name of WASI.
func newSurface(s Surface) (*surface, error) {
	out := &surface{
		types:   verify.NewSurface(cmp.Or(s.Name, "this host"), s.Exports),
		imports: map[string]map[string]*Import{},
	}
	for _, imp := range s.Imports {
		switch {
		case imp.Module == "" || imp.Name == "" || imp.Func == nil:
			return nil, fmt.Errorf("surface: import %q.%q needs a module, a name and a function", imp.Module, imp.Name)
		case imp.Module == verify.WASIModule:
			return nil, fmt.Errorf("surface: import %s.%s: WASI is the sandbox's own", imp.Module, imp.Name)
		case !out.add(imp):
			return nil, fmt.Errorf("surface: import %s.%s is there twice", imp.Module, imp.Name)
		}
	}
	for _, f := range wasi.Functions() {
		out.add(wasiImport(f))
	}
	return out, nil
}

// add adds an import. It reports false if there is one of that name.
func (s *surface) add(imp Import) bool {
	if !s.types.Add(verify.ImportInfo{Module: imp.Module, Name: imp.Name, Type: imp.Type()}) {
		return false
	}
	if s.imports[imp.Module] == nil {
		s.imports[imp.Module] = map[string]*Import{}
	}
	s.imports[imp.Module][imp.Name] = &imp
	return true
}

// wasiImport returns a function of WASI as an import.
func wasiImport(f wasi.Function) Import {
	return Import{
		Module: verify.WASIModule, Name: f.Name, Params: f.Type.Params, Results: f.Type.Results,
		Func: func(_ context.Context, g *Guest, stack []uint64) { f.Call(&g.in.wasi, stack) },
	}
}
