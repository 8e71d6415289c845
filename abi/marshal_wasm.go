package abi

import "unsafe"

// marshal encodes a value of this package.
func marshal(v value) ([]byte, error) {
	w := writer{b: make([]byte, 0, 256)}
	v.writeValue(&w)
	return w.b, w.err
}

// spare is an unused trusted, or nil. A module has a single thread, so one is enough.
var spare *trusted

// newTrusted returns a trusted that reads b. If own is set, it may change b. finish releases
// it.
func newTrusted(b []byte, own bool) *trusted {
	t := spare
	if spare = nil; t == nil {
		t = &trusted{}
	}
	t.b, t.i, t.own, t.bad, t.padded = b, 0, own, false, false
	return t
}

// finish releases t and returns an error if the text was malformed.
func (t *trusted) finish() error {
	err := t.end()
	t.b, t.last = nil, ""
	// Clear the pointers that simple stored without a write barrier.
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

// newScanner returns a scanner of b.
func newScanner(b []byte, stop func() error) *scanner { return &scanner{b: b, stop: stop} }

// release releases the scanner.
func (s *scanner) release() {}
