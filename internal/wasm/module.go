// Package wasm decodes, checks and encodes the binary format of WebAssembly 2.0,
// including vector instructions, and rewrites modules so that they can be metered and
// stopped.
//
// Decode is safe for hostile input. It makes a single pass over the bytes, never
// allocates more than the remaining bytes can fill, and applies Limits to everything that
// can be counted. It checks structure, every index and every immediate. It does not check
// operand types; the compiler does.
package wasm

// Module is a decoded module. Its bodies and data alias the bytes it was decoded from,
// which must not change while the module is in use.
//
// Index spaces begin with the imports of their kind, as in the specification.
type Module struct {
	Types     []FuncType
	Imports   []Import
	Functions []uint32 // type index of each defined function
	Tables    []Table
	Memories  []Memory
	Globals   []Global
	Exports   []Export
	Start     *uint32
	Elements  []Element
	// HasDataCount reports whether the module has a data count section, which memory.init and
	// data.drop require. The section's value is len(Data).
	HasDataCount bool
	Code         []Code // bodies of the defined functions
	Data         []Data
}

// ImportedFunctions returns the number of imported functions, which is also the index of
// the first function that the module defines.
func (m *Module) ImportedFunctions() int { return m.imported(ExternalFunction) }

func (m *Module) imported(kind External) int {
	n := 0
	for i := range m.Imports {
		if m.Imports[i].Kind == kind {
			n++
		}
	}
	return n
}

// FunctionType returns the signature of the function with that index. ok is false if
// the index is out of range.
func (m *Module) FunctionType(index uint32) (t FuncType, ok bool) {
	for i := range m.Imports {
		if m.Imports[i].Kind != ExternalFunction {
			continue
		}
		if index == 0 {
			return m.Types[m.Imports[i].Type], true
		}
		index--
	}
	if int(index) >= len(m.Functions) {
		return FuncType{}, false
	}
	return m.Types[m.Functions[index]], true
}

// GlobalTypes returns the types of all globals, imported ones first.
func (m *Module) GlobalTypes() []GlobalType {
	var types []GlobalType
	for i := range m.Imports {
		if m.Imports[i].Kind == ExternalGlobal {
			types = append(types, m.Imports[i].Global)
		}
	}
	for i := range m.Globals {
		types = append(types, m.Globals[i].GlobalType)
	}
	return types
}

// TableTypes returns the types of all tables, imported ones first.
func (m *Module) TableTypes() []Table {
	var types []Table
	for i := range m.Imports {
		if m.Imports[i].Kind == ExternalTable {
			types = append(types, m.Imports[i].Table)
		}
	}
	return append(types, m.Tables...)
}

// Export returns the export called name, or nil.
func (m *Module) Export(name string) *Export {
	for i := range m.Exports {
		if m.Exports[i].Name == name {
			return &m.Exports[i]
		}
	}
	return nil
}
