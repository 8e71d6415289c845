package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// Sizes of WebAssembly memories in bytes.
const (
	PageBytes      = 64 << 10
	MaxMemoryBytes = 4 << 30
)

// ImportInfo describes a function that a module imports: something it can do.
type ImportInfo struct {
	Module, Name string
	Type         FuncType
}

// ExportInfo describes something that a module exports.
type ExportInfo struct {
	Name string
	Kind string   // "function", "memory", "table" or "global"
	Type FuncType // type of a function; zero for other exports
}

// Outline describes the imports, exports and memory of a module.
type Outline struct {
	Imports []ImportInfo
	Exports []ExportInfo // sorted by name
	// MemoryMin and MemoryMax bound the memory in bytes. MemoryMax is 4 GiB if the module
	// declares no maximum.
	MemoryMin, MemoryMax uint64
}

// FuncType returns the type of an exported function, and false if the module exports no function of
// this name.
func (o *Outline) FuncType(export string) (FuncType, bool) {
	i, ok := slices.BinarySearchFunc(o.Exports, export, func(e ExportInfo, name string) int {
		return strings.Compare(e.Name, name)
	})
	if !ok || o.Exports[i].Kind != "function" {
		return FuncType{}, false
	}
	return o.Exports[i].Type, true
}

// OutlineOf returns the outline of a decoded module, or a [*RefusedError] if the module
// imports something other than functions, or starts with an import.
func OutlineOf(m *wasm.Module) (*Outline, error) {
	o := &Outline{MemoryMax: MaxMemoryBytes}
	for _, imp := range m.Imports {
		if imp.Kind != wasm.ExternalFunction {
			return nil, &RefusedError{
				Reason: fmt.Sprintf("imports the %v %s.%s, but only functions can be imported",
					imp.Kind, text.Cut(imp.Module, 64), text.Cut(imp.Name, 64)),
				Fix: "let the module define and export its own memory, tables and globals",
			}
		}
		o.Imports = append(o.Imports, ImportInfo{imp.Module, imp.Name, funcTypeOf(m.Types[imp.Type])})
	}
	if m.Start != nil && int(*m.Start) < len(m.Imports) {
		return nil, &RefusedError{
			Reason: fmt.Sprintf("has the import %s as its start function", text.Cut(o.Imports[*m.Start].Name, 64)),
			Fix:    "start with a function of the module",
		}
	}
	for _, exp := range m.Exports {
		info := ExportInfo{Name: exp.Name, Kind: exp.Kind.String()}
		if t, ok := m.FunctionType(exp.Index); ok && exp.Kind == wasm.ExternalFunction {
			info.Type = funcTypeOf(t)
		}
		o.Exports = append(o.Exports, info)
	}
	slices.SortFunc(o.Exports, func(a, b ExportInfo) int { return strings.Compare(a.Name, b.Name) })
	if len(m.Memories) > 0 {
		memory := m.Memories[0].Size
		o.MemoryMin = uint64(memory.Min) * PageBytes
		if memory.HasMax {
			o.MemoryMax = uint64(memory.Max) * PageBytes
		}
	}
	return o, nil
}

// FuncType is the type of a WebAssembly function, with wazero's value types.
type FuncType struct {
	Params, Results []api.ValueType
}

// String formats the type as "(i32, i32) -> i64".
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
