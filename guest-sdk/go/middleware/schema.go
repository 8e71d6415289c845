package middleware

import (
	"encoding"
	"reflect"
	"strings"

	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A schema is a JSON Schema for decoding a Go type.
type schema struct {
	kind        string
	description string
	items       *schema
	properties  []property // in the order of the struct's fields
	required    []string
	closed      bool    // no additional properties
	values      *schema // schema of a map's values
}

type property struct {
	name   string
	schema *schema
}

// append appends the schema as JSON.
func (s *schema) append(b []byte) []byte {
	b = append(b, '{')
	if s.kind != "" {
		b = key(b, "type")
		b = jsoncodec.AppendText(b, s.kind)
	}
	if s.description != "" {
		b = key(b, "description")
		b = jsoncodec.AppendText(b, s.description)
	}
	if s.items != nil {
		b = key(b, "items")
		b = s.items.append(b)
	}
	if len(s.properties) > 0 {
		b = key(b, "properties")
		b = append(b, '{')
		for _, p := range s.properties {
			b = key(b, p.name)
			b = p.schema.append(b)
		}
		b = append(b, '}')
	}
	if len(s.required) > 0 {
		b = key(b, "required")
		b = append(b, '[')
		for i, name := range s.required {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsoncodec.AppendText(b, name)
		}
		b = append(b, ']')
	}
	if s.closed {
		b = key(b, "additionalProperties")
		b = append(b, "false"...)
	} else if s.values != nil {
		b = key(b, "additionalProperties")
		b = s.values.append(b)
	}
	return append(b, '}')
}

// key writes a comma, unless it is the first, and the key of a field.
//
//go:noinline
func key(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(jsoncodec.AppendText(b, name), ':')
}

// A schemaMaker derives the schema of a type.
type schemaMaker struct {
	required bool           // whether fields without omitempty are required
	inside   []reflect.Type // the enclosing structs, to detect recursive types
	unfit    reflect.Type   // a type that JSON cannot represent
}

func (m *schemaMaker) schema(t reflect.Type) *schema {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalJSON(b []byte) error }]()) {
		return &schema{}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return &schema{kind: "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.schema(t.Elem())
	case reflect.Bool:
		return &schema{kind: "boolean"}
	case reflect.String:
		return &schema{kind: "string"}
	case reflect.Float32, reflect.Float64:
		return &schema{kind: "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &schema{kind: "integer"}
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return &schema{kind: "string"} // base64
		}
		return &schema{kind: "array", items: m.schema(t.Elem())}
	case reflect.Map:
		return &schema{kind: "object", values: m.schema(t.Elem())}
	case reflect.Struct:
		return m.object(t)
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		m.unfit = t
		return &schema{}
	default:
		return &schema{}
	}
}

func (m *schemaMaker) object(t reflect.Type) *schema {
	for _, around := range m.inside {
		if around == t {
			return &schema{kind: "object"}
		}
	}
	m.inside = append(m.inside, t)
	defer func() { m.inside = m.inside[:len(m.inside)-1] }()
	s := &schema{kind: "object", closed: true}
	eachField(t, func(name, options string, f reflect.StructField) {
		sub := m.schema(f.Type)
		sub.description = f.Tag.Get("doc")
		s.properties = append(s.properties, property{name, sub})
		if m.required && !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			s.required = append(s.required, name)
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

// configNames returns the keys of a configuration.
func configNames(t reflect.Type) []string {
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	eachField(t, func(name, _ string, _ reflect.StructField) { names = append(names, name) })
	return names
}
