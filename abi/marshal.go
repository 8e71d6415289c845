//go:build !wasm

package abi

import "sync"

// writers are such as are used again: what is written is copied from them, so that it
// takes one piece of memory of its own size.
var writers = sync.Pool{New: func() any { return &writer{b: make([]byte, 0, 4<<10)} }}

// mostPooled is the most bytes that a writer keeps. What is longer is not copied.
const mostPooled = 64 << 10

// marshal is Marshal of a value of this package.
func marshal(v value) ([]byte, error) {
	w := writers.Get().(*writer)
	v.writeValue(w)
	b, err := w.b, w.err
	if cap(b) > mostPooled {
		return b, err // and the writer is garbage
	}
	out := append(make([]byte, 0, len(b)), b...)
	w.b, w.err = b[:0], nil
	writers.Put(w)
	return out, err
}

// begin returns what reads a text, which may be nobody else's.
func begin(b []byte, own bool) *trusted { return &trusted{b: b, own: own} }

// finish says whether all was well.
func (t *trusted) finish() error { return t.end() }
