package abi

import (
	"reflect"
)

// Fields are fields of an object that this version does not know, in the
// order in which they came, as they came.
type Fields []Field

// A Field is one of them.
type Field struct {
	Name  string
	Value JSON
}

// Get returns the value of a field, or nil.
func (f Fields) Get(name string) JSON {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value
		}
	}
	return nil
}

// with returns the fields and one more.
func (f Fields) with(name string, raw []byte) Fields {
	return append(f, Field{name, Clone(raw)})
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

// Marshal writes v as JSON, as encoding/json does but without escaping <, >
// and &.
func Marshal(v any) ([]byte, error) {
	if known := valueOf(v); known != nil {
		return marshal(known)
	}
	return MarshalValue(v)
}

// valueOf is v as a value of this package, or a pointer to one; nil for others,
// also for those that embed one and have its methods.
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
