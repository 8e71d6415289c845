// Package word reads and writes eight bytes of text at a time, as little-endian integers. The
// codecs of modules spend most of their time on such accesses. Each function is one instruction in
// WebAssembly, where it omits bounds checks: the caller guarantees that the bytes exist. For other
// architectures the functions are safe. The package imports nothing of this project.
package word

// Bytes repeated eight times, and the lowest and highest bits of eight bytes.
const (
	Ones        = 0x0101010101010101
	Zeros       = '0' * Ones
	Highs       = 0x8080808080808080
	Spaces      = ' ' * Ones
	Quotes      = '"' * Ones
	Backslashes = '\\' * Ones
)

// MayEnd sets the highest bit of each byte that is a quote or a backslash, and of a few others, such
// as '#', ']' and 0xa2. The other bits have no meaning. MayEnd is cheaper than an exact test.
func MayEnd(w uint64) uint64 {
	return Highs - ((w^Backslashes)+2*Ones)&(0x7c*Ones)
}
