// Package differential runs generated modules, metered as the sandbox meters them, in wazero's compiler
// and in its interpreter, and compares what they do: results, traps, memory, globals and fuel. The two
// share the decoder and nothing of how they execute, so a difference is a miscompilation, a fault of the
// interpreter, or a rewriting that is not deterministic. Fuel that depended on the engine could not be
// billed.
//
// Modules use the numeric instructions of WebAssembly 2.0 with vectors, memory, bulk memory, tables,
// calls, branches and several results. Results that are NaN are made canonical, since their bits may
// differ.
//
// Two faults of wazero 1.12.0's compiler for amd64 are known, and a test for each fails once it is fixed:
//
//   - 0 < (a & b), where it decides a branch, is taken for (a & b) < 0. The generator does not write it.
//   - v128.bitselect with a mask of zeros returns its first operand in some functions with many vectors
//     (testdata/vectors.hex). What these have in common is not known yet, so the generator may find it
//     again: once in some 10,000 modules. The result is the same each time.
package differential
