package jsoncodec

// pieceBytes is the maximum number of bytes that one copy moves. Go's scheduler cannot
// preempt a copy, which is written in assembly. Copying 8 MiB to untouched memory takes 5
// to 30 ms, and a garbage collection of the whole process would have to wait for it.
const pieceBytes = 256 << 10

// Clone returns a copy of b, or nil if b is nil. It copies a large b in pieces, so that the
// scheduler can preempt it.
func Clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	out := make([]byte, len(b))
	copyPieces(out, b)
	return out
}

// CloneUntil is like Clone, but if b is longer than one piece of 256 KiB, it calls stop before each
// piece and fails with the error of stop. A nil stop is not called.
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

// Append appends text to b, in pieces as Clone does.
func Append[T ~string | ~[]byte](b []byte, text T) []byte {
	b = growPieces(b, len(text))
	n := len(b)
	b = b[:n+len(text)]
	copyPieces(b[n:], text)
	return b
}

// growPieces ensures capacity for n more bytes.
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

// copyPiece calls copy with its arguments. It must not be inlined, because the scheduler
// preempts at function calls. The signal with which it could also preempt would nearly
// always arrive during the next copy.
//
//go:noinline
func copyPiece[T ~string | ~[]byte](to []byte, from T) int { return copy(to, from) }
