package wasm

import "fmt"

// ResetObstacles returns the reasons why an instance of the module cannot be reset to an earlier
// state by restoring its memory and its exported globals. If there are none, an instance has no
// other mutable state. Each reason is an English phrase. Imports come first, then the start
// section, globals and instructions.
func (m *Module) ResetObstacles() []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for i := range m.Imports {
		switch imp := &m.Imports[i]; {
		case imp.Kind == ExternalMemory, imp.Kind == ExternalTable, imp.Kind == ExternalGlobal && imp.Global.Mutable:
			add("imports the %s %s.%s, which others can change", imp.Kind, imp.Module, imp.Name)
		}
	}
	if m.Start != nil {
		add("has a start section")
	}
	for i, g := range m.GlobalTypes() {
		if g.Mutable && (g.Type == V128 || g.Type.IsReference()) {
			add("global %d is mutable and of type %s", i, g.Type)
		}
	}
	first := m.ImportedFunctions()
	seen := map[Opcode]bool{}
	var in Instruction
	for i := range m.Code {
		for it := m.Code[i].Instructions(); it.Next(&in); {
			switch in.Op {
			case OpTableSet, OpTableGrow, OpTableInit, OpTableCopy, OpTableFill, OpElemDrop, OpDataDrop:
				if !seen[in.Op] {
					seen[in.Op] = true
					add("uses %s (first in function %d)", in.Op, first+i)
				}
			}
		}
	}
	return all
}
