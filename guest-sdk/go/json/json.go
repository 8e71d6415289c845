// Package json reads and writes JSON in modules. It supports the tags and interfaces of
// encoding/json, which would make a module 0.9 MB larger.
package json

import (
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Reader reads JSON text incrementally, without reflection. A module that needs no
// reflection is 0.5 MB smaller.
type Reader = jsoncodec.Reader

// NewReader returns a Reader that reads b without changing it. Strings that the Reader
// returns may share memory with b. b must be valid JSON; see [Valid].
func NewReader(b []byte) *Reader { return jsoncodec.NewReader(b) }

// Valid returns an error if b is not one JSON value in UTF-8. It also rejects duplicate keys,
// halves of surrogate pairs, more than 64 levels of nesting, and numbers of more than 64 bytes.
func Valid(b []byte) error { return jsoncodec.Valid(b) }

// Marshal returns the JSON encoding of v, in which <, > and & are not escaped. It returns an error if v contains a
// value that JSON cannot represent.
func Marshal(v any) ([]byte, error) { return abijson.MarshalValue(v) }

// Unmarshal decodes b into v, which must be a pointer. It ignores unknown keys. b must be
// valid JSON; see [Valid]. If Unmarshal fails, v may be partly set.
func Unmarshal(b []byte, v any) error { return abijson.ReadValue(b, v) }

// Decode decodes b, which may be invalid, into v, and returns the paths of unknown keys. It
// fails if b is not [Valid] or has a value of the wrong type. If Decode fails, v is unchanged.
func Decode(b []byte, v any) (unknown []string, err error) { return abijson.DecodeValue(b, v) }

// AppendString appends text to b as a JSON string and returns the extended slice.
func AppendString(b []byte, text string) []byte { return jsoncodec.AppendText(b, text) }
