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

// scanners are such as are used again, with room for their paths.
var scanners = sync.Pool{New: func() any { return &scanner{path: make([]segment, 0, usualDepth)} }}

// usualDepth is how long a path may be whose room is used again.
const usualDepth = 16

// newScanner returns what reads b, which is to be given back.
func newScanner(b []byte, stop func() error) *scanner {
	s := scanners.Get().(*scanner)
	s.b, s.stop = b, stop
	return s
}

// giveBack ends the use of a scanner.
func (s *scanner) giveBack() {
	path := s.path[:cap(s.path)]
	if len(path) > usualDepth {
		return
	}
	clear(path) // keys are parts of the text
	*s = scanner{path: path[:0]}
	scanners.Put(s)
}

// AppendJSON appends v to b as Marshal writes it. With an error b is as it was.
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

// begin returns what reads a text, which may be nobody else's.
func begin(b []byte, own bool) *trusted { return &trusted{b: b, own: own} }

// finish says whether all was well.
func (t *trusted) finish() error { return t.end() }
