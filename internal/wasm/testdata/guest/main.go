// Command guest is an ordinary Go module for the tests: it decodes and encodes JSON.
package main

import (
	"encoding/json"
	"unsafe"
)

var in, out []byte

//go:wasmexport room
func room(n uint32) uint32 {
	in = make([]byte, n)
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(in))))
}

// hook decodes the JSON in the buffer and encodes it again. It returns the length of the
// output, or 0 if the input is not JSON.
//
//go:wasmexport hook
func hook() uint32 {
	var v any
	if json.Unmarshal(in, &v) != nil {
		return 0
	}
	out, _ = json.Marshal(v)
	return uint32(len(out))
}

//go:wasmexport output
func output() uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(out)))) }

func main() {}
