package abi

// pieceBytes is what a copy moves at once. A copy is assembly, in which Go's
// scheduler cannot interrupt it; one of 8 MiB to memory that was not touched yet
// takes 5 to 30 ms, and all that while a garbage collection of the whole process
// would wait for it.
const pieceBytes = 256 << 10

// Clone copies a text, in pieces if it is large, so that the scheduler can
// interrupt it. A nil stays one.
func Clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	out := make([]byte, len(b))
	copyPieces(out, b)
	return out
}

// CloneUntil is Clone that calls stop between two pieces and fails with its error. A nil stop is
// not called.
func CloneUntil(b []byte, stop func() error) ([]byte, error) {
	if stop == nil || len(b) <= pieceBytes {
		return Clone(b), nil
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		if err := stop(); err != nil {
			return nil, err
		}
		n := min(len(b), pieceBytes)
		out, b = Append(out, b[:n]), b[n:]
	}
	return out, nil
}

// Append appends a text to another, in pieces as Clone does.
func Append[T ~string | ~[]byte](b []byte, text T) []byte {
	b = growPieces(b, len(text))
	n := len(b)
	b = b[:n+len(text)]
	copyPieces(b[n:], text)
	return b
}

// growPieces makes room for n more bytes.
func growPieces(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := make([]byte, len(b), max(2*len(b), len(b)+n+n/4))
	copyPieces(grown, b)
	return grown
}

func copyPieces[T ~string | ~[]byte](to []byte, from T) {
	for len(from) > 0 {
		n := copyPiece(to, from[:min(len(from), pieceBytes)])
		to, from = to[n:], from[n:]
	}
}

// copyPiece must be a call: that is where the scheduler interrupts. A signal, its
// other way, would nearly always come in the midst of the next copy.
//
//go:noinline
func copyPiece[T ~string | ~[]byte](to []byte, from T) int { return copy(to, from) }
