package abi

import (
	"reflect"
)

// Fields holds the unknown fields of an object, unchanged and in their original order.
type Fields []Field

// A Field is the name and value of one field.
type Field struct {
	Name  string
	Value JSON
}

// Get returns the value of the field called name, or nil if there is none.
func (f Fields) Get(name string) JSON {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value
		}
	}
	return nil
}

// with returns f with one more field.
func (f Fields) with(name string, raw []byte) Fields {
	return append(f, Field{name, Clone(raw)})
}

// FieldOf returns the value of a field of the JSON object b, or nil if there is no such
// field. b must be valid JSON. The result is a part of b.
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

// Marshal encodes v as encoding/json does, but without escaping <, > and &.
func Marshal(v any) ([]byte, error) {
	if known := valueOf(v); known != nil {
		return marshal(known)
	}
	return MarshalValue(v)
}

// valueOf returns v as a value if its type is one of this package's, or a pointer to one.
// It returns nil for other types, including those that embed one and inherit its methods.
func valueOf(v any) value {
	t := reflect.TypeOf(v)
	if t == nil {
		return nil
	}
	if t.Kind() == reflect.Struct && t.PkgPath() == ownPath {
		p := reflect.New(t)
		p.Elem().Set(reflect.ValueOf(v))
		known, _ := p.Interface().(value)
		return known
	}
	known, ok := v.(value)
	if !ok || t.Kind() != reflect.Pointer || t.Elem().PkgPath() != ownPath || reflect.ValueOf(v).IsNil() {
		return nil
	}
	return known
}

var ownPath = reflect.TypeFor[Error]().PkgPath()
