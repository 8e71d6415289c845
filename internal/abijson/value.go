package abijson

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// This file reads and writes values of types that module authors define. It avoids reflection for
// the types of package abi that authors store most often.

// ReadValue is like Read for types that module authors define, but does not change b. It does not change the parts of
// v that b does not mention. If it fails, v may be partly set.
func ReadValue(b []byte, v any) error {
	t := newReader(b, false)
	err := t.anything(v)
	if broken := t.finish(); err == nil {
		err = broken
	}
	return err
}

// ReadLocal is like Read for a [contract.LocalValue]. It reads the value into v, as ReadValue does,
// and returns the version.
func ReadLocal(b []byte, v any) (version int64, err error) {
	t := newReader(b, true)
	t.pad()
	if n := len(`{"value":`); hasKeyAt(t.B[:len(t.B)+Pad], 0, `{"value":`) { // the host's usual encoding
		t.I = n
		err = t.anything(v)
	}
	for err == nil && t.Key() {
		switch t.Last {
		case "value":
			err = t.anything(v)
		case "version":
			version = t.Int()
		default:
			t.Skip()
		}
	}
	if broken := t.finish(); err == nil {
		err = broken
	}
	return version, err
}

// anything reads a value of any type.
func (t *reader) anything(v any) error {
	switch t.Space(); v := v.(type) {
	case *abi.Result:
		(*Result)(v).fill(t)
	case *abi.Message:
		(*Message)(v).fill(t)
	case *[]abi.Message:
		fillSlice(t, v, func(t *reader, m *abi.Message) { (*Message)(m).fill(t) })
	default:
		return t.Value(v)
	}
	return nil
}

// MarshalValue encodes a value of a type that a module author defines.
func MarshalValue(v any) ([]byte, error) { return AppendValue(make([]byte, 0, 128), v) }

// AppendValue appends the encoding of v to b. The type of v is one that a module author defines.
func AppendValue(b []byte, v any) ([]byte, error) {
	switch known := v.(type) {
	case abi.Result:
		return (*Result)(&known).append(b)
	case *abi.Result:
		if known != nil {
			return (*Result)(known).append(b)
		}
	case abi.Message:
		return (*Message)(&known).append(b)
	case []abi.Message:
		w := jsoncodec.Writer{B: b}
		writeMessages(&w, known)
		return w.B, w.Err
	}
	return jsoncodec.AppendValue(b, v)
}
