package image

// pieceBytes is the size of one copy or comparison. A copy runs in assembly, which Go's scheduler
// cannot interrupt: one of 8 MiB to memory that was never touched takes 5 to 30 ms, and a garbage
// collection of the whole host would wait for it.
const pieceBytes = 256 << 10

// Copy copies src to dst like the built-in copy. Go's scheduler can interrupt it, so it is for
// memory that may be large.
func Copy(dst, src []byte) {
	for len(src) > 0 && len(dst) > 0 {
		n := copyPiece(dst, src[:min(len(src), pieceBytes)])
		dst, src = dst[n:], src[n:]
	}
}

// copyPiece is the built-in copy. It must not be inlined, because the scheduler interrupts at
// calls. The scheduler's other means, a signal, would nearly always arrive in the middle of the
// next copy.
//
//go:noinline
func copyPiece(dst, src []byte) int { return copy(dst, src) }

// Clone returns a copy of b, or nil if b is empty. Go's scheduler can interrupt it, so it is for
// memory that may be large.
func Clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	out := make([]byte, len(b))
	Copy(out, b)
	return out
}
