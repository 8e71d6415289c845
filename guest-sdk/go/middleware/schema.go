package middleware

import (
	"bytes"
	"encoding"
	"reflect"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// A schema is a JSON Schema of what a Go type decodes from.
type schema struct {
	Type        string     `json:"type,omitempty"`
	Description string     `json:"description,omitempty"`
	Items       *schema    `json:"items,omitempty"`
	Properties  properties `json:"properties,omitempty"`
	Required    []string   `json:"required,omitempty"`
	// Additional is false for structs and a schema for maps.
	Additional any `json:"additionalProperties,omitempty"`
}

// properties are in the order of the struct's fields.
type properties []property

type property struct {
	name   string
	schema *schema
}

// MarshalJSON writes an object.
func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		for _, v := range []any{p[i].name, p[i].schema} {
			part, err := abi.MarshalValue(v)
			if err != nil {
				return nil, err
			}
			b.Write(part)
			if v == any(p[i].name) {
				b.WriteByte(':')
			}
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// A schemaMaker makes the schema of one type.
type schemaMaker struct {
	required bool           // whether fields without omitempty must be there
	inside   []reflect.Type // the structs around, for types that hold themselves
}

// configSchema is the schema of a part's configuration, or of none.
func configSchema(p *part) abi.JSON {
	t := reflect.TypeFor[struct{}]()
	if p != nil {
		t = p.configType()
	}
	return encodeSchema((&schemaMaker{}).schema(t))
}

func encodeSchema(s *schema) abi.JSON {
	b, err := abi.MarshalValue(s)
	if err != nil {
		panic("middleware: encode a schema: " + err.Error()) // it consists of strings
	}
	return b
}

func (m *schemaMaker) schema(t reflect.Type) *schema {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalJSON(b []byte) error }]()) {
		return &schema{}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return &schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.schema(t.Elem())
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Float32, reflect.Float64:
		return &schema{Type: "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &schema{Type: "integer"}
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return &schema{Type: "string"} // base64
		}
		return &schema{Type: "array", Items: m.schema(t.Elem())}
	case reflect.Map:
		return &schema{Type: "object", Additional: m.schema(t.Elem())}
	case reflect.Struct:
		return m.object(t)
	default:
		return &schema{}
	}
}

func (m *schemaMaker) object(t reflect.Type) *schema {
	for _, around := range m.inside {
		if around == t {
			return &schema{Type: "object"}
		}
	}
	m.inside = append(m.inside, t)
	defer func() { m.inside = m.inside[:len(m.inside)-1] }()
	s := &schema{Type: "object", Additional: false}
	eachField(t, func(name, options string, f reflect.StructField) {
		sub := m.schema(f.Type)
		sub.Description = f.Tag.Get("doc")
		s.Properties = append(s.Properties, property{name, sub})
		if m.required && !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			s.Required = append(s.Required, name)
		}
	})
	return s
}

// eachField calls fn with the fields of a struct that JSON decodes into, those
// of embedded structs among them.
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

// configNames are the keys of a configuration.
func configNames(t reflect.Type) []string {
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	eachField(t, func(name, _ string, _ reflect.StructField) { names = append(names, name) })
	return names
}
