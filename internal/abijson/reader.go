//go:build !wasm

package abijson

import "github.com/agent-runner/agent-runner/internal/jsoncodec"

// newReader returns a reader of b. If own is set, the reader may change b.
func newReader(b []byte, own bool) *reader { return &reader{Parser: jsoncodec.Parser{B: b, Own: own}} }

// finish returns an error if the text was malformed.
func (t *reader) finish() error { return t.End() }
