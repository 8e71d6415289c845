//go:build wasip1

// Command plain is the guest that bench/figures runs in this project's sandbox and in plain wazero.
// It copies the input and the output once each.
package main

import (
	"unsafe"

	"github.com/agent-runner/agent-runner/bench/internal/work"
)

//go:wasmimport bench_v1 read
func read(ptr unsafe.Pointer, size uint32)

//go:wasmimport bench_v1 write
func write(ptr unsafe.Pointer, size uint32)

var buf []byte

//go:wasmexport hook
func hook(size uint32) uint32 {
	if uint32(cap(buf)) < size {
		buf = make([]byte, size)
	}
	in := buf[:size]
	read(unsafe.Pointer(unsafe.SliceData(in)), size)
	out, err := work.Do(in)
	if err != nil {
		return 1
	}
	write(unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
	return 0
}

func main() {}
