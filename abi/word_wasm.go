package abi

import "unsafe"

// word is eight bytes of b from i on, the first lowest. They must be there. The
// compiler makes eight loads of encoding/binary's.
func word(b []byte, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// byteOf is b[i], which must be there.
func byteOf(b []byte, i int) byte {
	return *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// words are sixteen bytes of b from i on. They must be there.
func words(b []byte, i int) (first, second uint64) {
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)
	return *(*uint64)(p), *(*uint64)(unsafe.Add(p, 8))
}
