//go:build !wasm

package abi

import "sync"

// writers pools writers. The output is copied from the writer's buffer, so that it has
// exactly the capacity it needs.
var writers = sync.Pool{New: func() any { return &writer{b: make([]byte, 0, 4<<10)} }}

// maxPooledBytes is the maximum buffer size of a pooled writer, in bytes. Larger outputs are
// returned without a copy.
const maxPooledBytes = 64 << 10

// marshal encodes a value of this package.
func marshal(v value) ([]byte, error) {
	w := writers.Get().(*writer)
	v.writeValue(w)
	b, err := w.b, w.err
	if cap(b) > maxPooledBytes {
		return b, err // w is not reused
	}
	out := append(make([]byte, 0, len(b)), b...)
	w.b, w.err = b[:0], nil
	writers.Put(w)
	return out, err
}

// scanners pools scanners together with their path buffers.
var scanners = sync.Pool{New: func() any { return &scanner{path: make([]segment, 0, maxPooledPath)} }}

// maxPooledPath is the maximum capacity of a pooled path buffer.
const maxPooledPath = 16

// newScanner returns a scanner of b. The caller must release it.
func newScanner(b []byte, stop func() error) *scanner {
	s := scanners.Get().(*scanner)
	s.b, s.stop = b, stop
	return s
}

// release returns the scanner to the pool.
func (s *scanner) release() {
	path := s.path[:cap(s.path)]
	if len(path) > maxPooledPath {
		return
	}
	clear(path) // keys are slices of the text
	*s = scanner{path: path[:0]}
	scanners.Put(s)
}

// AppendJSON appends the JSON encoding of v to b, as Marshal encodes it. On error it
// returns b unchanged.
func AppendJSON(b []byte, v any) ([]byte, error) {
	known := valueOf(v)
	if known == nil {
		text, err := MarshalValue(v)
		return Append(b, text), err
	}
	w := writers.Get().(*writer)
	own := w.b
	w.b = b
	known.writeValue(w)
	out, err := w.b, w.err
	w.b, w.err = own, nil
	writers.Put(w)
	if err != nil {
		return b, err
	}
	return out, nil
}

// newTrusted returns a trusted that reads b. If own is set, it may change b.
func newTrusted(b []byte, own bool) *trusted { return &trusted{b: b, own: own} }

// finish returns an error if the text was malformed.
func (t *trusted) finish() error { return t.end() }
