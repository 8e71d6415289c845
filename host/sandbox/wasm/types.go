package wasm

import "fmt"

// ValueType is the type of a value, as the binary format encodes it.
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

// IsReference reports whether t is a type of references.
func (t ValueType) IsReference() bool { return t == FuncRef || t == ExternRef }

func (t ValueType) known() bool { return t >= V128 && t <= I32 || t.IsReference() }

// featureOfType names the proposal that a type outside of WebAssembly 2.0
// comes from, or returns "" for a byte that no proposal uses.
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

// String returns the signature as in "(i32, i32) -> i64".
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

// Range is the least and the greatest size of a memory (in pages of 64 KiB) or
// of a table (in entries).
type Range struct {
	Min uint32
	// Max is meaningful only if HasMax.
	Max    uint32
	HasMax bool
}

// Table is a table's type.
type Table struct {
	Type ValueType
	Size Range
}

// Memory is a memory's type.
type Memory struct {
	Size Range
}

// GlobalType is a global's type.
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

// Import is something a module asks its host for. Kind says which of the
// descriptions holds.
type Import struct {
	Module, Name string
	Kind         External
	Type         uint32 // index of a function's type
	Table        Table
	Memory       Memory
	Global       GlobalType
}

// Export is something a module offers.
type Export struct {
	Name  string
	Kind  External
	Index uint32
}

// Mode says when a segment is used.
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
	Table  uint32    // for Active
	Offset ConstExpr // for Active
	Type   ValueType
	// Functions holds the entries if all of them are functions; otherwise it
	// is nil and Exprs holds them.
	Functions []uint32
	Exprs     []ConstExpr
}

// Len returns the number of entries.
func (e *Element) Len() int { return len(e.Functions) + len(e.Exprs) }

// Data is a segment of bytes for the memory.
type Data struct {
	Mode   Mode
	Offset ConstExpr // for Active
	Init   []byte
}

// Locals is a run of local variables of one type.
type Locals struct {
	Count uint32
	Type  ValueType
}

// Code is the body of a function.
type Code struct {
	Locals []Locals
	// Body is the function's instructions with the final end, as encoded.
	Body []byte
	// Offset is where Body begins in the bytes that were decoded.
	Offset int
}

// ConstExpr is a constant expression: in WebAssembly 2.0 a single instruction,
// one of the const instructions, global.get of an imported global, ref.null or
// ref.func.
type ConstExpr struct {
	Op Opcode
	// Bits is the constant's bits, the index of the global or function, or
	// the type of a null reference.
	Bits uint64
	// High is the upper half of a v128.
	High uint64
}
