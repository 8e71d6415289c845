package abi

import "unsafe"

// word returns the eight bytes of b at i as a little-endian integer. They must exist.
// With encoding/binary the compiler would emit eight loads.
func word(b []byte, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// byteOf returns b[i], which must exist.
func byteOf(b []byte, i int) byte {
	return *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// words returns the sixteen bytes of b at i. They must exist.
func words(b []byte, i int) (first, second uint64) {
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)
	return *(*uint64)(p), *(*uint64)(unsafe.Add(p, 8))
}

// setWord stores eight bytes in b at i, and setByte stores one. They must exist.
func setWord(b []byte, i int, w uint64) {
	*(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = w
}

func setByte(b []byte, i int, c byte) {
	*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = c
}

// wordOf returns the eight bytes of s at i as a little-endian integer. They must exist.
func wordOf(s string, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.StringData(s)), i))
}

// rest returns the last bytes of s from i on, at most seven, padded with spaces. It may
// read bytes before s, which always exist in linear memory.
func rest(s string, i int) uint64 {
	left := (len(s) - i) & 7
	return wordOf(s, len(s)-8)>>(64-8*left) | spaces<<(8*left)
}

// putKey copies a constant to b at out. At least eight bytes must follow it in b. It may
// read bytes after the constant, which always exist.
func putKey(b []byte, out int, key string) {
	setWord(b, out, wordOf(key, 0))
	for i := 8; i < len(key); i += 8 {
		setWord(b, out+i, wordOf(key, i))
	}
}

// setHalf stores four bytes in b at i. They must exist.
func setHalf(b []byte, i int, w uint32) {
	*(*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = w
}

// setText makes the string at address at refer to the n bytes of b at i, which must not
// change afterwards. It bypasses the garbage collector's write barrier. That is safe
// because the trusted holds b until everything is read, and the collector knows of the
// string itself.
func setText(at unsafe.Pointer, b []byte, i, n int) {
	text := (*[2]uintptr)(at)
	text[0], text[1] = uintptr(unsafe.Pointer(unsafe.SliceData(b)))+uintptr(i), uintptr(n)
}

// setPointer stores p at address at without a write barrier. The collector knows of p
// from elsewhere.
func setPointer(at, p unsafe.Pointer) { *(*uintptr)(at) = uintptr(p) }

// setWords stores sixteen bytes in b at i. They must exist.
func setWords(b []byte, i int, first, second uint64) {
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)
	*(*uint64)(p), *(*uint64)(unsafe.Add(p, 8)) = first, second
}
