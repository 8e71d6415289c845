package rawjson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Equal reports whether two JSON texts have the same value. An absent text equals null.
func Equal(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(Canonical(a), Canonical(b))
}

// Canonical returns a JSON text in the form that equal values share (RFC 8785), and text that is not valid JSON
// unchanged. An absent text is null.
func Canonical(text []byte) []byte {
	v := jsontext.Value(bytes.Clone(text))
	if len(v) == 0 {
		return []byte("null")
	}
	if v.Canonicalize() != nil {
		return text
	}
	return v
}
