//go:build !wasm

package word

import (
	"encoding/binary"
	"unsafe"
)

// Load returns the eight bytes of b at i as a little-endian integer. They must exist.
func Load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// Byte returns b[i].
func Byte(b []byte, i int) byte { return b[i] }

// LoadTwo returns the sixteen bytes of b at i. They must exist.
func LoadTwo(b []byte, i int) (first, second uint64) { return Load(b, i), Load(b, i+8) }

// Store stores eight bytes in b at i. They must exist.
func Store(b []byte, i int, w uint64) { binary.LittleEndian.PutUint64(b[i:], w) }

// StoreByte stores one byte in b at i.
func StoreByte(b []byte, i int, c byte) { b[i] = c }

// LoadString returns the eight bytes of s at i as a little-endian integer. They must exist.
func LoadString(s string, i int) uint64 { return Load(unsafe.Slice(unsafe.StringData(s), len(s)), i) }

// Rest returns s[i:], which must have at most seven bytes, padded with spaces.
func Rest(s string, i int) uint64 {
	w := uint64(Spaces)
	for n := len(s) - 1; n >= i; n-- {
		w = w<<8 | uint64(s[n])
	}
	return w
}

// CopyConst copies the constant key to b at out. At least eight bytes of b must follow the copy.
func CopyConst(b []byte, out int, key string) { copy(b[out:], key) }

// StoreHalf stores four bytes in b at i. They must exist.
func StoreHalf(b []byte, i int, w uint32) { binary.LittleEndian.PutUint32(b[i:], w) }

// StoreString makes a string refer to b[i:i+n], which must not change afterwards. at points to the
// string.
func StoreString(at unsafe.Pointer, b []byte, i, n int) {
	*(*string)(at) = unsafe.String(unsafe.SliceData(b[i:]), n)
}

// StorePointer stores p in the pointer to which at points.
func StorePointer(at, p unsafe.Pointer) { *(*unsafe.Pointer)(at) = p }

// StoreTwo stores sixteen bytes in b at i. They must exist.
func StoreTwo(b []byte, i int, first, second uint64) {
	Store(b, i, first)
	Store(b, i+8, second)
}
