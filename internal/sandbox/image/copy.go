package image

// pieceBytes is the size of one copy or comparison. A copy is assembly, in which Go's
// scheduler cannot interrupt it: one of 8 MiB to memory that was never touched takes 5 to
// 30 ms, and a garbage collection of the whole host would wait for it.
const pieceBytes = 256 << 10

// Copy is the built-in copy of memory that may be large. Go's scheduler can interrupt it.
func Copy(dst, src []byte) {
	for len(src) > 0 && len(dst) > 0 {
		n := copyPiece(dst, src[:min(len(src), pieceBytes)])
		dst, src = dst[n:], src[n:]
	}
}

// copyPiece must be a call, because the scheduler interrupts at calls. Its other way, a
// signal, would nearly always arrive in the middle of the next copy.
//
//go:noinline
func copyPiece(dst, src []byte) int { return copy(dst, src) }

// Clone is [bytes.Clone] of memory that may be large. Go's scheduler can interrupt it.
func Clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	out := make([]byte, len(b))
	Copy(out, b)
	return out
}
