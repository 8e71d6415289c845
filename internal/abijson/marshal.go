//go:build !wasip1 && !guest

package abijson

import (
	"sync"

	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// writers pools writers. marshal copies the output from the writer's buffer, so that the capacity of the copy equals
// its length.
var writers = sync.Pool{New: func() any { return &jsoncodec.Writer{B: make([]byte, 0, 4<<10)} }}

// maxPooledBytes is the maximum buffer size of a pooled writer, in bytes. Larger outputs are
// returned without a copy.
const maxPooledBytes = 64 << 10

// Marshal encodes v as encoding/json does, but without escaping <, > and &.
func Marshal(v any) ([]byte, error) {
	if known := codecOf(v); known != nil {
		return marshal(known)
	}
	return marshalValue(make([]byte, 0, 128), v)
}

// marshalValue appends the encoding of v to b. v has a type of the host, which may contain types of
// package abi.
func marshalValue(b []byte, v any) ([]byte, error) {
	w := jsoncodec.Writer{B: b, Known: writeKnown}
	w.Value(v)
	return w.B, w.Err
}

// writeKnown writes v with its codec and returns true if v has a type of package abi. Otherwise it
// returns false.
func writeKnown(w *jsoncodec.Writer, v any) bool {
	known := codecOf(v)
	if known != nil {
		known.writeValue(w)
	}
	return known != nil
}

// marshal encodes a type of package abi.
func marshal(v codec) ([]byte, error) {
	w := writers.Get().(*jsoncodec.Writer)
	v.writeValue(w)
	b, err := w.B, w.Err
	if cap(b) > maxPooledBytes {
		return b, err // w is not reused
	}
	out := append(make([]byte, 0, len(b)), b...)
	w.B, w.Err = b[:0], nil
	writers.Put(w)
	return out, err
}

// AppendJSON appends v to b in the encoding of Marshal. On error, it returns b unchanged.
func AppendJSON(b []byte, v any) ([]byte, error) {
	known := codecOf(v)
	if known == nil {
		text, err := marshalValue(make([]byte, 0, 128), v)
		if err != nil {
			return b, err
		}
		return jsoncodec.Append(b, text), nil
	}
	w := writers.Get().(*jsoncodec.Writer)
	own := w.B
	w.B = b
	known.writeValue(w)
	out, err := w.B, w.Err
	w.B, w.Err = own, nil
	writers.Put(w)
	if err != nil {
		return b, err
	}
	return out, nil
}
