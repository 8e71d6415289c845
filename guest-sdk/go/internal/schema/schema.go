// Package schema derives the JSON Schema of a Go type, for the configurations and the tools
// of modules. It imports no package that makes modules large.
package schema

import (
	"encoding"
	"reflect"
	"strings"

	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Schema is a JSON Schema of the JSON values that are decoded into a Go type.
type Schema struct {
	Kind        string
	Description string
	Items       *Schema
	Properties  []Property // properties in the order of the struct's fields
	Required    []string
	Closed      bool    // whether additional properties are not allowed
	Values      *Schema // schema of a map's values
}

// A Property is a property of an object.
type Property struct {
	Name   string
	Schema *Schema
}

// Append appends the schema to b as JSON.
func (s *Schema) Append(b []byte) []byte {
	b = append(b, '{')
	if s.Kind != "" {
		b = key(b, "type")
		b = jsoncodec.AppendText(b, s.Kind)
	}
	if s.Description != "" {
		b = key(b, "description")
		b = jsoncodec.AppendText(b, s.Description)
	}
	if s.Items != nil {
		b = key(b, "items")
		b = s.Items.Append(b)
	}
	if len(s.Properties) > 0 {
		b = key(b, "properties")
		b = append(b, '{')
		for _, p := range s.Properties {
			b = key(b, p.Name)
			b = p.Schema.Append(b)
		}
		b = append(b, '}')
	}
	if len(s.Required) > 0 {
		b = key(b, "required")
		b = append(b, '[')
		for i, name := range s.Required {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsoncodec.AppendText(b, name)
		}
		b = append(b, ']')
	}
	if s.Closed {
		b = key(b, "additionalProperties")
		b = append(b, "false"...)
	} else if s.Values != nil {
		b = key(b, "additionalProperties")
		b = s.Values.Append(b)
	}
	return append(b, '}')
}

// key appends the key of a field to b, after a comma unless the field is the first of its object.
//
//go:noinline
func key(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(jsoncodec.AppendText(b, name), ':')
}

// A Maker derives the JSON Schemas of Go types. The zero value makes no field required.
type Maker struct {
	Required bool           // whether fields are required, except pointers and fields with omitempty or omitzero
	inside   []reflect.Type // the enclosing structs, to detect recursive types
	Unfit    reflect.Type   // a type that JSON cannot represent; nil if there is none
}

// Schema returns the schema of t. It sets Unfit if JSON cannot represent t.
func (m *Maker) Schema(t reflect.Type) *Schema {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalJSON(b []byte) error }]()) {
		return &Schema{}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return &Schema{Kind: "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.Schema(t.Elem())
	case reflect.Bool:
		return &Schema{Kind: "boolean"}
	case reflect.String:
		return &Schema{Kind: "string"}
	case reflect.Float32, reflect.Float64:
		return &Schema{Kind: "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &Schema{Kind: "integer"}
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return &Schema{Kind: "string"} // base64
		}
		return &Schema{Kind: "array", Items: m.Schema(t.Elem())}
	case reflect.Map:
		return &Schema{Kind: "object", Values: m.Schema(t.Elem())}
	case reflect.Struct:
		return m.object(t)
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		m.Unfit = t
		return &Schema{}
	default:
		return &Schema{}
	}
}

func (m *Maker) object(t reflect.Type) *Schema {
	for _, around := range m.inside {
		if around == t {
			return &Schema{Kind: "object"}
		}
	}
	m.inside = append(m.inside, t)
	defer func() { m.inside = m.inside[:len(m.inside)-1] }()
	s := &Schema{Kind: "object", Closed: true}
	eachField(t, func(name, options string, f reflect.StructField) {
		sub := m.Schema(f.Type)
		sub.Description = f.Tag.Get("doc")
		s.Properties = append(s.Properties, Property{name, sub})
		if m.Required && !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			s.Required = append(s.Required, name)
		}
	})
	return s
}

// eachField calls fn with the fields of a struct that JSON is decoded into, including
// those of embedded structs.
func eachField(t reflect.Type, fn func(name, options string, f reflect.StructField)) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			eachField(f.Type, fn)
		case !f.IsExported():
		case name == "":
			fn(f.Name, options, f)
		default:
			fn(name, options, f)
		}
	}
}

// Keys returns the JSON keys of the fields of the struct t. It returns nil if t is not a struct.
func Keys(t reflect.Type) []string {
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	eachField(t, func(name, _ string, _ reflect.StructField) { names = append(names, name) })
	return names
}
