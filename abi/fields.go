package abi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
)

// Fields are fields of an object that this version does not know, in the
// order in which they came, as they came.
type Fields []Field

// A Field is one of them.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Get returns the value of a field, or nil.
func (f Fields) Get(name string) json.RawMessage {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value
		}
	}
	return nil
}

// appendTo writes the fields behind those of the object in b.
func (f Fields) appendTo(b []byte) []byte {
	for _, field := range f {
		b = appendField(b, field.Name, field.Value)
	}
	return b
}

// appendField writes one more field into the object in b.
func appendField(b []byte, name string, value []byte) []byte {
	key, err := Marshal(name)
	if err != nil || len(b) < 2 {
		return b
	}
	b = b[:len(b)-1]
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(append(append(b, key...), ':'), value...)
	return append(b, '}')
}

// FieldOf returns the value of a field of the object b, which is valid JSON, as
// the part of b that it is; nil if there is no such field.
func FieldOf(b []byte, name string) []byte {
	var found []byte
	if eachField(b, func(field string, value []byte) error {
		if field == name {
			found = value
		}
		return nil
	}) != nil {
		return nil
	}
	return found
}

// unknownFields returns the fields of the object b that t does not have.
func unknownFields(b []byte, t reflect.Type) (Fields, error) {
	known := typeOf(t)
	var out Fields
	err := eachField(b, func(name string, value []byte) error {
		if _, ok := known.fields[name]; !ok {
			out = append(out, Field{name, slices.Clone(value)})
		}
		return nil
	})
	return out, err
}

// Marshal writes v as JSON, as encoding/json does but without escaping <, >
// and &.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
