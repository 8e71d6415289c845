package abijson

import (
	"unsafe"

	"github.com/agent-runner/agent-runner/internal/word"
)

// spare is an unused reader, or nil. One is enough, because a module has a single thread.
var spare *reader

// newReader returns a reader of b. If own is set, the reader may change b. finish releases the
// reader.
func newReader(b []byte, own bool) *reader {
	t := spare
	if spare = nil; t == nil {
		t = &reader{}
	}
	t.B, t.I, t.Own, t.Bad, t.padded = b, 0, own, false, false
	return t
}

// finish releases t and returns an error if the text was malformed.
func (t *reader) finish() error {
	err := t.End()
	t.B, t.Last = nil, ""
	// Clear the pointers that simple stored without a write barrier.
	in := &t.places
	word.StorePointer(unsafe.Pointer(&in[0].p), nil)
	word.StorePointer(unsafe.Pointer(&in[1].p), nil)
	word.StorePointer(unsafe.Pointer(&in[2].p), nil)
	word.StorePointer(unsafe.Pointer(&in[3].p), nil)
	word.StorePointer(unsafe.Pointer(&in[4].p), nil)
	word.StorePointer(unsafe.Pointer(&in[5].p), nil)
	word.StorePointer(unsafe.Pointer(&in[6].p), nil)
	word.StorePointer(unsafe.Pointer(&in[7].p), nil)
	spare = t
	return err
}
