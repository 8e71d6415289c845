//go:build !wasm

package abi

import (
	"encoding/binary"
	"unsafe"
)

// word returns the eight bytes of b at i as a little-endian integer. They must exist.
func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// byteOf returns b[i].
func byteOf(b []byte, i int) byte { return b[i] }

// words returns the sixteen bytes of b at i. They must exist.
func words(b []byte, i int) (first, second uint64) { return word(b, i), word(b, i+8) }

// setWord stores eight bytes in b at i, and setByte stores one. They must exist.
func setWord(b []byte, i int, w uint64) { binary.LittleEndian.PutUint64(b[i:], w) }
func setByte(b []byte, i int, c byte)   { b[i] = c }

// wordOf returns the eight bytes of s at i as a little-endian integer. They must exist.
func wordOf(s string, i int) uint64 { return word(unsafe.Slice(unsafe.StringData(s), len(s)), i) }

// rest returns the last bytes of s from i on, at most seven, padded with spaces.
func rest(s string, i int) uint64 {
	w := uint64(spaces)
	for n := len(s) - 1; n >= i; n-- {
		w = w<<8 | uint64(s[n])
	}
	return w
}

// putKey copies a constant to b at out. At least eight bytes must follow it in b.
func putKey(b []byte, out int, key string) { copy(b[out:], key) }

// setHalf stores four bytes in b at i. They must exist.
func setHalf(b []byte, i int, w uint32) { binary.LittleEndian.PutUint32(b[i:], w) }

// setText makes the string at address at refer to the n bytes of b at i, which must not
// change afterwards.
func setText(at unsafe.Pointer, b []byte, i, n int) {
	*(*string)(at) = unsafe.String(unsafe.SliceData(b[i:]), n)
}

// setPointer stores p at address at.
func setPointer(at, p unsafe.Pointer) { *(*unsafe.Pointer)(at) = p }

// setWords stores sixteen bytes in b at i. They must exist.
func setWords(b []byte, i int, first, second uint64) {
	setWord(b, i, first)
	setWord(b, i+8, second)
}
