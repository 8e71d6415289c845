// Guest is an ordinary Go module for the tests: it decodes and encodes JSON.
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

// hook decodes what was put into the room and encodes it again. It returns the
// length of the outcome, or 0 if that was no JSON.
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
