package abi

// marshal is Marshal of a value of this package.
func marshal(v value) ([]byte, error) {
	w := writer{b: make([]byte, 0, 256)}
	v.writeValue(&w)
	return w.b, w.err
}
