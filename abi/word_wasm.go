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

// setWord sets eight bytes of b from i on, and setByte one. They must be there.
func setWord(b []byte, i int, w uint64) {
	*(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = w
}

func setByte(b []byte, i int, c byte) {
	*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = c
}

// wordOf is word of a text.
func wordOf(s string, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.StringData(s)), i))
}

// rest are the up to seven last bytes of s, from i on, and spaces behind them. There
// always is something before s.
func rest(s string, i int) uint64 {
	left := (len(s) - i) & 7
	return wordOf(s, len(s)-8)>>(64-8*left) | spaces<<(8*left)
}

// putKey puts a constant to out in b, behind which there is room for eight bytes, as
// there is something behind all constants.
func putKey(b []byte, out int, key string) {
	setWord(b, out, wordOf(key, 0))
	for i := 8; i < len(key); i += 8 {
		setWord(b, out+i, wordOf(key, i))
	}
}

// setHalf sets four bytes of b from i on. They must be there.
func setHalf(b []byte, i int, w uint32) {
	*(*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = w
}

// setText makes the text at a place n bytes of b from i on, which nobody changes. It
// tells the collector nothing of it: that knows of b, as what reads it holds it until
// all is read, and of the place.
func setText(at unsafe.Pointer, b []byte, i, n int) {
	text := (*[2]uintptr)(at)
	text[0], text[1] = uintptr(unsafe.Pointer(unsafe.SliceData(b)))+uintptr(i), uintptr(n)
}

// setPointer makes the pointer at a place p, which the collector knows of without that.
func setPointer(at, p unsafe.Pointer) { *(*uintptr)(at) = uintptr(p) }

// setWords sets sixteen bytes of b from i on. They must be there.
func setWords(b []byte, i int, first, second uint64) {
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)
	*(*uint64)(p), *(*uint64)(unsafe.Add(p, 8)) = first, second
}
