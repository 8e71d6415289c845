package httpapi

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed examples.json
var examplesJSON []byte

// examples holds the samples from which the examples in the OpenAPI document are made.
type examples struct {
	// Requests and Responses hold bodies by the ids of operations.
	Requests  map[string]any `json:"requests"`
	Responses map[string]any `json:"responses"`
	// Values holds values of properties. A key is the name of a property, or the name of a schema and
	// the name of its property with a dot between them.
	Values map[string]any `json:"values"`

	schemas huma.Registry
}

// readExamples returns the samples, for a document with the given schemas.
func readExamples(schemas huma.Registry) *examples {
	x := &examples{schemas: schemas}
	if err := json.Unmarshal(examplesJSON, x); err != nil {
		panic("httpapi: examples.json: " + err.Error())
	}
	return x
}

// add adds an example to the request and to the successful response of an operation. If there is no
// sample of a body, its example is made from the schema, so that the example has the fields of the
// body.
func (x *examples) add(op *huma.Operation) {
	if op.RequestBody != nil && op.OperationID != "put-module" { // the body is a program
		for _, m := range op.RequestBody.Content {
			if m.Example = x.Requests[op.OperationID]; m.Example == nil && m.Schema != nil {
				m.Example = x.value("", "", m.Schema, nil)
			}
		}
	}
	for status, r := range op.Responses {
		for _, m := range r.Content {
			if !strings.HasPrefix(status, "2") || m.Schema == nil {
				continue
			}
			if m.Example = x.Responses[op.OperationID]; m.Example == nil {
				m.Example = x.value("", "", m.Schema, nil)
			}
		}
	}
}

// value returns an example of a schema, or nil if there is none. The value is for a property of the
// schema owner. within has the schemas that contain the value.
func (x *examples) value(owner, property string, s *huma.Schema, within []string) any {
	if v, ok := x.Values[owner+"."+property]; ok {
		return v
	}
	if v, ok := x.Values[property]; ok && fits(v, s) {
		return v
	}
	if s.Ref != "" {
		name := s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
		if slices.Contains(within, name) {
			return nil
		}
		return x.object(name, x.schemas.SchemaFromRef(s.Ref), append(slices.Clone(within), name))
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Format == "date-time":
		return "2026-11-28T12:00:00Z"
	}
	switch s.Type {
	case "object":
		return x.object(owner, s, within)
	case "array":
		if v := x.value(owner, property, s.Items, within); v != nil {
			return []any{v}
		}
		return []any{}
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "string":
		return "text"
	}
	return map[string]any{}
}

// fits reports whether a sample has the type of a schema and, if the schema lists its values, is one
// of them.
func fits(v any, s *huma.Schema) bool {
	switch v.(type) {
	case string:
		return s.Type == "string" && s.Format == "" && (s.Enum == nil || slices.Contains(s.Enum, v))
	case float64:
		return s.Type == "integer" || s.Type == "number"
	}
	return false
}

// object returns an example of an object. It has the required properties, and the properties for
// which there is a sample.
func (x *examples) object(name string, s *huma.Schema, within []string) any {
	out := map[string]any{}
	for _, property := range slices.Sorted(maps.Keys(s.Properties)) {
		_, own := x.Values[name+"."+property]
		if !own && !slices.Contains(s.Required, property) {
			continue
		}
		if v := x.value(name, property, s.Properties[property], within); v != nil {
			out[property] = v
		}
	}
	return out
}
