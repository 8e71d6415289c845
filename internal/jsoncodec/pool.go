//go:build !wasm

package jsoncodec

import "sync"

// scanners pools scanners together with their path buffers.
var scanners = sync.Pool{New: func() any { return &Scanner{path: make([]segment, 0, maxPooledPath)} }}

// maxPooledPath is the maximum capacity of a pooled path buffer.
const maxPooledPath = 16

// NewScanner returns a scanner that reads b. If stop is not nil, the scanner calls it every
// 64 KiB. The caller must release the scanner.
func NewScanner(b []byte, stop func() error) *Scanner {
	s := scanners.Get().(*Scanner)
	s.B, s.stop = b, stop
	return s
}

// Release returns the scanner to the pool, unless its path buffer exceeds maxPooledPath.
func (s *Scanner) Release() {
	path := s.path[:cap(s.path)]
	if len(path) > maxPooledPath {
		return
	}
	clear(path) // keys are slices of the text
	*s = Scanner{path: path[:0]}
	scanners.Put(s)
}
