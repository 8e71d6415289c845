// Package wasmtest tests the Go SDK in WebAssembly: guests built by Go and their size, and the
// vectors in testdata/abi. It contains only tests.
package wasmtest
