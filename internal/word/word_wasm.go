package word

import "unsafe"

// Load returns the eight bytes of b at i as a little-endian integer. They must exist.
// With encoding/binary the compiler would emit eight loads.
func Load(b []byte, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// Byte returns b[i], which must exist.
func Byte(b []byte, i int) byte {
	return *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// LoadTwo returns the sixteen bytes of b at i. They must exist.
func LoadTwo(b []byte, i int) (first, second uint64) {
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)
	return *(*uint64)(p), *(*uint64)(unsafe.Add(p, 8))
}

// Store stores eight bytes in b at i. They must exist.
func Store(b []byte, i int, w uint64) {
	*(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = w
}

// StoreByte stores one byte in b at i, which must exist.
func StoreByte(b []byte, i int, c byte) {
	*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = c
}

// LoadString returns the eight bytes of s at i as a little-endian integer. They must exist.
func LoadString(s string, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.StringData(s)), i))
}

// Rest returns s[i:], which must have at most seven bytes, padded with spaces. s must not be empty.
// Rest may read up to seven bytes before s, which linear memory has.
func Rest(s string, i int) uint64 {
	left := (len(s) - i) & 7
	return LoadString(s, len(s)-8)>>(64-8*left) | Spaces<<(8*left)
}

// CopyConst copies the constant key to b at out. At least eight bytes of b must follow the copy. It
// may read bytes after the constant, which always exist.
func CopyConst(b []byte, out int, key string) {
	Store(b, out, LoadString(key, 0))
	for i := 8; i < len(key); i += 8 {
		Store(b, out+i, LoadString(key, i))
	}
}

// StoreHalf stores four bytes in b at i. They must exist.
func StoreHalf(b []byte, i int, w uint32) {
	*(*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = w
}

// StoreString makes a string refer to b[i:i+n], which must not change afterwards. at points to the
// string. StoreString bypasses the garbage collector's write barrier. This is safe because the reader
// holds b until everything is read, and because the garbage collector can find the string itself.
func StoreString(at unsafe.Pointer, b []byte, i, n int) {
	text := (*[2]uintptr)(at)
	text[0], text[1] = uintptr(unsafe.Pointer(unsafe.SliceData(b)))+uintptr(i), uintptr(n)
}

// StorePointer stores p in the pointer to which at points, without a write barrier. The collector
// must also find p through another pointer.
func StorePointer(at, p unsafe.Pointer) { *(*uintptr)(at) = uintptr(p) }

// StoreTwo stores sixteen bytes in b at i. They must exist.
func StoreTwo(b []byte, i int, first, second uint64) {
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)
	*(*uint64)(p), *(*uint64)(unsafe.Add(p, 8)) = first, second
}
