package wasm

// Limits bounds the modules that Decode accepts. Each field is the largest accepted value, so zero
// allows none. Start from DefaultLimits and change what a deployment needs.
//
// The limits exist because the time and memory of compiling grow more than linearly with
// most of these numbers, and because a small module can declare very large numbers.
type Limits struct {
	// ModuleBytes is the maximum size of the whole module. It also bounds everything else in a
	// module.
	ModuleBytes int

	// Types is the maximum number of entries of the type section. The host keeps every signature
	// for the life of the compiled module.
	Types int
	// Params is the maximum number of parameters of one type. They are moved at every call and at
	// every branch to a loop with parameters.
	Params int
	// Results is the maximum number of results of one type. They are moved like parameters.
	Results int
	// TypeValues is the maximum sum of parameters and results over all types. 10,000 types of 115
	// each, 1.1 MB, make wazero allocate 1 GB for their names.
	TypeValues int

	// Imports is the maximum number of imports of every kind. The host resolves each by name at
	// every instantiation.
	Imports int
	// Functions is the maximum number of functions that a module defines, without imports.
	Functions int
	// Tables is the maximum number of tables, including imported ones.
	Tables int
	// TableEntries is the maximum sum of the minimum sizes of all tables. Each entry takes eight
	// bytes at instantiation, which do not count towards the memory limit.
	TableEntries int
	// MemoryPages is the largest accepted minimum size of the memory, in pages of 64 KiB. The
	// minimum size is allocated at instantiation.
	MemoryPages int
	// Globals is the maximum number of globals, including imported ones. A compiled function
	// reloads the mutable globals it uses after each call.
	Globals int
	// Exports is the maximum number of exports, of all kinds together.
	Exports int
	// NameBytes is the maximum length in bytes of one name of an import or export. Names appear in
	// errors, logs and events.
	NameBytes int

	// ElementSegments is the maximum number of segments that fill tables.
	ElementSegments int
	// ElementEntries is the maximum sum of the entries of all element segments.
	ElementEntries int
	// DataSegments is the maximum number of segments that fill memory. Go modules have tens of
	// thousands, because Go's linker splits data at runs of zeros.
	DataSegments int

	// BodyBytes is the maximum size of one function body. The compiler's cost per function grows
	// more than linearly with it.
	BodyBytes int
	// CodeBytes is the maximum sum of the sizes of all function bodies.
	CodeBytes int
	// FunctionLocals is the maximum number of parameters and locals of one function. Two bytes of
	// code can declare four billion of them.
	FunctionLocals int
	// Locals is the maximum sum of parameters and locals of all functions.
	Locals int
	// Nesting is the maximum nesting depth of blocks, loops and ifs in one function.
	Nesting int
	// LoopNesting is the maximum nesting depth of loops alone. The compile time grows with its
	// square times the number of locals.
	LoopNesting int
	// BranchTargets is the maximum number of labels of one br_table.
	BranchTargets int
	// TotalBranchTargets is the maximum sum over all br_table of a module. Each target makes the
	// compiler add a block.
	TotalBranchTargets int
	// BranchValues is the maximum sum, over all labels in branches, of the number of values that
	// the branch passes.
	BranchValues int
	// Blocks is the maximum number of basic blocks of one function, as a compiler derives them
	// from its blocks, loops, ifs and branches. wazero took 80 s for 50,000 empty ifs,
	// 250 KiB, and 0.5 s for 6,000.
	Blocks int
	// BlockSquares is the maximum sum of the square of Blocks over all functions. Compile time is
	// proportional to it: about 3 ns per unit.
	BlockSquares int
	// BlockLocals is the maximum sum over all functions of basic blocks times locals. A compiler
	// in static single assignment form may give each block a parameter for each local.
	BlockLocals int
	// LoopLocals is the maximum sum over all functions of loops times locals. Loops cost more
	// than other blocks: wazero took 10 s and 1 GB for 1,000 nested loops with 1,000
	// locals, 15 KB.
	LoopLocals int
	// CallGlobals is the maximum sum over all functions of calls times mutable globals, because a
	// compiled function reloads all of them after a call. Instructions that metering replaces with
	// calls count: wazero took 15 s and 1.3 GB for 50,000 memory.grow in a module with 100 globals.
	CallGlobals int
}

// DefaultLimits returns limits with ample room for ordinary modules of the known
// toolchains. The largest measured values are: 5.9 MB, 36,567 data segments, 6,213 table
// entries and 190,000 branch targets (Go); 4,573 functions, a body of 80 KB with 4,800
// basic blocks, nesting 1,706 and 3,125 targets of one branch (Haskell); 450 exports
// (QuickJS); 2,457 locals (C, instrumented by a tool).
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
