package wasm

import "fmt"

// ValueType is the type of a value in the encoding of the binary format.
type ValueType byte

// The value types of WebAssembly 2.0.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// String returns the type's name in the text format.
func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	default:
		return fmt.Sprintf("type %#x", byte(t))
	}
}

// IsReference reports whether t is a reference type.
func (t ValueType) IsReference() bool { return t == FuncRef || t == ExternRef }

func (t ValueType) known() bool { return t >= V128 && t <= I32 || t.IsReference() }

// featureOfType returns the name of the proposal outside of WebAssembly 2.0 that defines
// a type, or "" if none does.
func featureOfType(b byte) string {
	switch b {
	case 0x63, 0x64:
		return "typed function references"
	case 0x69, 0x74:
		return "exception handling"
	case 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x71, 0x72, 0x73, 0x77, 0x78:
		return "garbage collection"
	case 0x67:
		return "string references"
	default:
		return ""
	}
}

// FuncType is the signature of a function or a block.
type FuncType struct {
	Params, Results []ValueType
}

// String returns the signature in the form "(i32, i32) -> i64".
func (t FuncType) String() string {
	s := "("
	for i, p := range t.Params {
		if i > 0 {
			s += ", "
		}
		s += p.String()
	}
	s += ") ->"
	if len(t.Results) == 0 {
		return s + " ()"
	}
	for i, r := range t.Results {
		if i > 0 {
			s += ","
		}
		s += " " + r.String()
	}
	return s
}

// Range is the minimum and maximum size of a memory in pages of 64 KiB, or of a table in
// entries.
type Range struct {
	Min uint32
	// Max is valid if HasMax is set.
	Max    uint32
	HasMax bool
}

// Table is the type of a table: the type of its elements and its size.
type Table struct {
	Type ValueType
	Size Range
}

// Memory is the type of a memory.
type Memory struct {
	Size Range
}

// GlobalType is the type of a global and its mutability.
type GlobalType struct {
	Type    ValueType
	Mutable bool
}

// Global is a global that a module defines.
type Global struct {
	GlobalType
	Init ConstExpr
}

// External is the kind of an import or export.
type External byte

// The kinds of imports and exports.
const (
	ExternalFunction External = iota
	ExternalTable
	ExternalMemory
	ExternalGlobal
)

// String returns the kind's name.
func (e External) String() string {
	switch e {
	case ExternalFunction:
		return "function"
	case ExternalTable:
		return "table"
	case ExternalMemory:
		return "memory"
	default:
		return "global"
	}
}

// Import is an import of a module. Kind determines which of the fields after it is valid.
type Import struct {
	Module, Name string
	Kind         External
	Type         uint32 // type index if Kind is ExternalFunction
	Table        Table
	Memory       Memory
	Global       GlobalType
}

// Export is an export of a module.
type Export struct {
	Name  string
	Kind  External
	Index uint32
}

// Mode determines when a segment is used.
type Mode byte

const (
	// Active segments are copied when the module is instantiated.
	Active Mode = iota
	// Passive segments are copied by memory.init or table.init.
	Passive
	// Declarative element segments only name functions for ref.func.
	Declarative
)

// Element is a segment of references for a table.
type Element struct {
	Mode   Mode
	Table  uint32    // valid if Mode is Active
	Offset ConstExpr // valid if Mode is Active
	Type   ValueType
	// Functions contains the entries if all of them are functions. Otherwise Functions is nil, and
	// Exprs contains the entries.
	Functions []uint32
	Exprs     []ConstExpr
}

// Len returns the number of entries.
func (e *Element) Len() int { return len(e.Functions) + len(e.Exprs) }

// Data is a segment of bytes for the memory.
type Data struct {
	Mode   Mode
	Offset ConstExpr // valid if Mode is Active
	Init   []byte
}

// Locals is a run of local variables of the same type.
type Locals struct {
	Count uint32
	Type  ValueType
}

// Code is the body of a function.
type Code struct {
	Locals []Locals
	// Body is the encoded instructions, including the final end.
	Body []byte
	// Offset is the position of Body in the decoded bytes.
	Offset int
}

// ConstExpr is a constant expression. In WebAssembly 2.0 it is a single instruction: a
// const instruction, global.get of an imported global, ref.null or ref.func.
type ConstExpr struct {
	Op Opcode
	// Bits is the constant's bits, the index of the global or function, or the type of
	// a null reference.
	Bits uint64
	// High is the upper half of a v128.
	High uint64
}
