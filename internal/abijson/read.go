package abijson

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/word"
)

// A Readable is a type with a codec that modules receive: the input of a hook, or a reply of the
// host.
type Readable interface{ fill(t *reader) }

// Read decodes text that the host has written into v, for SDKs. It skips unknown fields, and omits
// the checks that only matter for hostile text. v must be zero, except that its slices may have
// spare capacity. Read takes ownership of b and of the memory up to b's capacity. v keeps
// references to parts of that memory, and Read overwrites other parts. If the capacity of b exceeds
// its length by at least Pad bytes, Read does not copy b.
func Read(b []byte, v Readable) error {
	t := newReader(b, true)
	v.fill(t)
	return t.finish()
}

// A Writable is a type with a codec that modules pass to the host: an answer or a patch.
type Writable interface {
	append(b []byte) ([]byte, error)
}

// Write appends the encoding of v to b, as Marshal does, but does not inspect the type of v. It is
// for SDKs.
func Write(b []byte, v Writable) ([]byte, error) {
	if b == nil {
		b = make([]byte, 0, 256)
	}
	return v.append(b)
}

// ReadMessages is like Read for an array of messages, which the import "messages" returns. n is the
// expected number of messages.
func ReadMessages(b []byte, n int) (list []abi.Message, err error) {
	t := newReader(b, true)
	if !t.Null() {
		list = make([]abi.Message, 0, n)
		for t.Next() {
			(*Message)(extended(&list, 1)).fill(t)
		}
	}
	return list, t.finish()
}

// Pad is the number of bytes after the text that Read may access. Read ignores the values of those
// bytes.
const Pad = 24

// A reader reads text that the host has written into the types of package abi.
type reader struct {
	jsoncodec.Parser

	padded bool     // Pad bytes follow the text
	known  abi.JSON // the last nested raw object
	places [8]place // the objects that are being read by their shapes
	depth  int      // number of places in use
}

// rawObject is like Raw, with a cache for the last nested object. For example, a tool's parameters
// recur with each call of the tool.
func (t *reader) rawObject() abi.JSON {
	if end := t.I + len(t.known); end <= len(t.B) && hasTextAt(t.B, t.I, t.known) {
		raw := t.B[t.I:end:end]
		t.I = end
		return raw
	}
	raw := t.Raw()
	if !t.Bad && t.depth > 1 && len(raw) > 0 && raw[0] == '{' {
		t.known = raw
	}
	return raw
}

// hasTextAt reports whether b contains text at i. It returns false if text has fewer than eight
// bytes.
func hasTextAt(b []byte, i int, text []byte) bool {
	n := len(text) - 8
	if n < 0 || word.Load(b, i+n) != word.Load(text, n) {
		return false
	}
	for k := 0; k < n; k += 8 {
		if word.Load(b, i+k) != word.Load(text, k) {
			return false
		}
	}
	return true
}

func fillSlice[T any](t *reader, v *[]T, fill func(*reader, *T)) {
	if t.Null() {
		return
	}
	*v = []T{}
	for t.Next() {
		fill(t, (*T)(extended(v, 3*len(*v)+1)))
	}
}

func fillMap[M ~map[K]V, K ~string, V any](t *reader, v *M, fill func(*reader, *V)) {
	if t.Null() {
		return
	}
	m := M{}
	var one, none V
	for t.Key() {
		key := K(t.Last)
		one = none
		fill(t, &one)
		m[key] = one
	}
	*v = m
}
