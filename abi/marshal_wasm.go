package abi

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
	spare = t
	return err
}
