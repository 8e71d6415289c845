//go:build !wasm

package abi

import (
	"encoding/binary"
	"unsafe"
)

// word is eight bytes of b from i on, the first lowest. They must be there.
func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// byteOf is b[i].
func byteOf(b []byte, i int) byte { return b[i] }

// words are sixteen bytes of b from i on. They must be there.
func words(b []byte, i int) (first, second uint64) { return word(b, i), word(b, i+8) }

// setWord sets eight bytes of b from i on, and setByte one. They must be there.
func setWord(b []byte, i int, w uint64) { binary.LittleEndian.PutUint64(b[i:], w) }
func setByte(b []byte, i int, c byte)   { b[i] = c }

// wordOf is word of a text.
func wordOf(s string, i int) uint64 { return word(unsafe.Slice(unsafe.StringData(s), len(s)), i) }

// rest are the up to seven last bytes of s, from i on, and spaces behind them.
func rest(s string, i int) uint64 {
	w := uint64(spaces)
	for n := len(s) - 1; n >= i; n-- {
		w = w<<8 | uint64(s[n])
	}
	return w
}

// putKey puts a constant to out in b, behind which there is room for eight bytes.
func putKey(b []byte, out int, key string) { copy(b[out:], key) }

// setHalf sets four bytes of b from i on. They must be there.
func setHalf(b []byte, i int, w uint32) { binary.LittleEndian.PutUint32(b[i:], w) }

// setText makes the text at a place n bytes of b from i on, which nobody changes.
func setText(at unsafe.Pointer, b []byte, i, n int) {
	*(*string)(at) = unsafe.String(unsafe.SliceData(b[i:]), n)
}

// setPointer makes the pointer at a place p.
func setPointer(at, p unsafe.Pointer) { *(*unsafe.Pointer)(at) = p }

// setWords sets sixteen bytes of b from i on. They must be there.
func setWords(b []byte, i int, first, second uint64) {
	setWord(b, i, first)
	setWord(b, i+8, second)
}
