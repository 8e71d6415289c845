package abi

import "unsafe"

// marshal is Marshal of a value of this package.
func marshal(v value) ([]byte, error) {
	w := writer{b: make([]byte, 0, 256)}
	v.writeValue(&w)
	return w.b, w.err
}

// spare is what reads, while nothing is read: a module does one thing at a time.
var spare *trusted

// begin returns what reads a text, which may be nobody else's. It is given back by finish.
func begin(b []byte, own bool) *trusted {
	t := spare
	if spare = nil; t == nil {
		t = &trusted{}
	}
	t.b, t.i, t.own, t.bad, t.padded = b, 0, own, false, false
	return t
}

// finish says whether all was well.
func (t *trusted) finish() error {
	err := t.end()
	t.b, t.last = nil, ""
	// simple told the collector nothing of what stands there.
	in := &t.places
	setPointer(unsafe.Pointer(&in[0].p), nil)
	setPointer(unsafe.Pointer(&in[1].p), nil)
	setPointer(unsafe.Pointer(&in[2].p), nil)
	setPointer(unsafe.Pointer(&in[3].p), nil)
	setPointer(unsafe.Pointer(&in[4].p), nil)
	setPointer(unsafe.Pointer(&in[5].p), nil)
	setPointer(unsafe.Pointer(&in[6].p), nil)
	setPointer(unsafe.Pointer(&in[7].p), nil)
	spare = t
	return err
}

// newScanner returns what reads b.
func newScanner(b []byte, stop func() error) *scanner { return &scanner{b: b, stop: stop} }

// giveBack ends the use of a scanner.
func (s *scanner) giveBack() {}
