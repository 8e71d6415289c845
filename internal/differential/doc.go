// Package differential runs generated modules, metered like those in the sandbox, in wazero's compiler
// and in its interpreter, and compares results, traps, memory, globals and fuel. The two engines share
// only the decoder, so a difference is a miscompilation, a fault of the interpreter, or nondeterministic
// metering. Fuel that depended on the engine could not be billed.
//
// Modules use the numeric instructions of WebAssembly 2.0 with vectors, memory, bulk memory, tables,
// calls, branches and several results. NaN results are made canonical, because their bits may differ.
//
// Metering does not work around one known fault of wazero 1.12.0's compiler for amd64: it treats 0
// < (a & b) as (a & b) < 0 in the condition of a branch. The generator avoids this code, and
// TestKnownMiscompilation fails when wazero is fixed. internal/wasm/workaround.go lists the faults
// that metering works around.
package differential
