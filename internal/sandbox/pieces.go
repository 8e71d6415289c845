package sandbox

// pieceBytes is what a copy moves at once. A copy is assembly, in which Go's
// scheduler cannot interrupt it; one of 8 MiB to memory that was not touched yet
// takes 5 to 30 ms, and all that while a garbage collection of the whole host
// would wait for it.
const pieceBytes = 256 << 10

// copyPieces is copy, with a place to be interrupted after each piece.
func copyPieces(dst, src []byte) {
	for len(src) > 0 && len(dst) > 0 {
		n := copyPiece(dst, src[:min(len(src), pieceBytes)])
		dst, src = dst[n:], src[n:]
	}
}

// copyPiece must be a call: that is where the scheduler interrupts. A signal, its
// other way, would nearly always come in the midst of the next copy.
//
//go:noinline
func copyPiece(dst, src []byte) int { return copy(dst, src) }

// clonePieces is bytes.Clone of memory that may be large.
func clonePieces(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	out := make([]byte, len(b))
	copyPieces(out, b)
	return out
}
