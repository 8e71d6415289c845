package wasm

// Limits are the caps that Decode holds a module to. Each is the largest value
// that is still accepted; a zero therefore allows none of the thing it counts.
// Start from DefaultLimits and change what a deployment needs.
//
// They are there because compiling costs more than linear time and memory in
// most of these numbers, and because every one of them can be claimed by a
// module far smaller than what it claims.
type Limits struct {
	// ModuleBytes is the size of the whole module. Everything else that a
	// module may hold is bounded by it too.
	ModuleBytes int

	// Types counts entries of the type section. Every signature is kept for
	// the life of the compiled module.
	Types int
	// Params is the number of parameters of one type. They are moved at every
	// call and every branch to a loop with parameters.
	Params int
	// Results is the number of results of one type, for the same reason.
	Results int
	// TypeValues is the sum of parameters and results over all types. 10,000
	// types of 115 each, 1.1 MB, let wazero allocate 1 GB for their names.
	TypeValues int

	// Imports counts imports of every kind. The host resolves each by name at
	// every instantiation.
	Imports int
	// Functions counts the functions that a module defines, imports aside.
	Functions int
	// Tables counts tables, imported ones included.
	Tables int
	// TableEntries is the sum of the minimum sizes of all tables. Eight bytes
	// each are allocated at instantiation, outside the limit on memory.
	TableEntries int
	// MemoryPages is the minimum size of the memory in pages of 64 KiB: what
	// has to be there before the module does anything.
	MemoryPages int
	// Globals counts globals, imported ones included. A compiled function
	// reloads the mutable ones it uses after each call.
	Globals int
	// Exports counts exports of every kind.
	Exports int
	// NameBytes is the length of one name of an import or export in bytes.
	// Names appear in errors, logs and events.
	NameBytes int

	// ElementSegments counts segments that fill tables.
	ElementSegments int
	// ElementEntries is the sum of the entries of all element segments.
	ElementEntries int
	// DataSegments counts segments that fill memory. Go modules have tens of
	// thousands, because its linker splits data at runs of zeros.
	DataSegments int

	// BodyBytes is the size of one function body. A compiler's passes over
	// one function are more than linear in it.
	BodyBytes int
	// CodeBytes is the sum of all bodies.
	CodeBytes int
	// FunctionLocals counts parameters and locals of one function. Two bytes
	// of code can declare four thousand million of them.
	FunctionLocals int
	// Locals is the sum of parameters and locals of all functions.
	Locals int
	// Nesting is the depth of blocks, loops and ifs in one function.
	Nesting int
	// LoopNesting is the depth of loops alone. The cost of compiling grows
	// with its square times the number of locals.
	LoopNesting int
	// BranchTargets counts the labels of one br_table.
	BranchTargets int
	// TotalBranchTargets is the sum over all br_table of a module. Each costs
	// a compiler a block of its own.
	TotalBranchTargets int
	// BranchValues is the sum, over all labels that branches name, of the
	// values that such a branch carries.
	BranchValues int
	// Blocks counts the basic blocks of one function, as a compiler will make
	// them of its blocks, loops, ifs and branches. 50,000 empty ifs, 250 KiB,
	// took wazero 80 s; 6,000 took it 0.5 s.
	Blocks int
	// BlockSquares is the sum of the square of Blocks over all functions,
	// which compile time is proportional to: about 3 ns each.
	BlockSquares int
	// BlockLocals is the sum over all functions of basic blocks times locals.
	// A compiler in static single assignment form may give each block a
	// parameter for each local.
	BlockLocals int
	// LoopLocals is the sum over all functions of loops times locals, which
	// cost more than other blocks. 1,000 nested loops with 1,000 locals, 15
	// KB, took wazero 10 s and 1 GB.
	LoopLocals int
	// CallGlobals is the sum over all functions of calls times mutable
	// globals, because a compiled function reloads all of them after a call.
	// Instructions that metering makes calls count: 50,000 memory.grow in a
	// module of 100 globals took wazero 15 s and 1.3 GB.
	CallGlobals int
}

// DefaultLimits returns limits that ordinary modules of the known toolchains
// pass with room to spare. Measured on such modules (the largest of each kind):
// 5.9 MB, 36,567 data segments, 6,213 table entries and 190,000 branch targets
// (Go); 4,573 functions, a body of 80 KB with 4,800 basic blocks, nesting 1,706
// and 3,125 targets of one branch (Haskell); 450 exports (QuickJS); 2,457 locals
// (C, instrumented by a tool).
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes: 16 << 20,

		Types:      10_000,
		Params:     100,
		Results:    16,
		TypeValues: 100_000,

		Imports:      200,
		Functions:    20_000,
		Tables:       4,
		TableEntries: 1 << 16,
		MemoryPages:  1 << 10,
		Globals:      1_000,
		Exports:      1_000,
		NameBytes:    1 << 10,

		ElementSegments: 10_000,
		ElementEntries:  100_000,
		DataSegments:    100_000,

		BodyBytes:          256 << 10,
		CodeBytes:          8 << 20,
		FunctionLocals:     3_000,
		Locals:             200_000,
		Nesting:            4_000,
		LoopNesting:        64,
		BranchTargets:      4_096,
		TotalBranchTargets: 400_000,
		BranchValues:       1_000_000,
		Blocks:             12_000,
		BlockSquares:       1_000_000_000,
		BlockLocals:        6_000_000,
		LoopLocals:         500_000,
		CallGlobals:        2_000_000,
	}
}
