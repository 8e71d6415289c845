package servertest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// An Operation describes one operation of the OpenAPI document.
type Operation struct {
	ID, Method, Path string
	Scope            httpapi.Scope
	MaxBody          int64
	JSON, Body       bool
	Schema           map[string]any
	Params           []string // path parameters
}

// Operations returns the operations of the server's OpenAPI document.
func (f *Fixture) Operations() []Operation {
	f.T.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			ID          string        `json:"operationId"`
			Scope       httpapi.Scope `json:"x-scope"`
			MaxBody     int64         `json:"x-max-body"`
			RequestBody *struct {
				Content map[string]struct{ Schema map[string]any }
			} `json:"requestBody"`
		}
		Components struct{ Schemas map[string]map[string]any }
	}
	f.OK("GET", "/openapi.json", "", nil, &doc)
	var out []Operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			o := Operation{ID: op.ID, Method: strings.ToUpper(method), Path: path, Scope: op.Scope, MaxBody: op.MaxBody}
			for _, part := range strings.Split(path, "/") {
				if name, ok := strings.CutPrefix(part, "{"); ok {
					o.Params = append(o.Params, strings.TrimSuffix(name, "}"))
				}
			}
			if op.RequestBody != nil {
				o.Body = true
				content, ok := op.RequestBody.Content["application/json"]
				o.JSON = ok
				o.Schema = ResolveSchema(doc.Components.Schemas, content.Schema)
			}
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b Operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	require.NotEmpty(f.T, out)
	return out
}

// ResolveSchema returns the schema that a JSON Schema refers to, or the schema itself if it is no reference. all
// has the schemas of the OpenAPI document by their names.
func ResolveSchema(all map[string]map[string]any, schema map[string]any) map[string]any {
	if ref, ok := schema["$ref"].(string); ok {
		return all[strings.TrimPrefix(ref, "#/components/schemas/")]
	}
	return schema
}

// At returns the operation's path with values for its parameters.
func (o *Operation) At(t *testing.T, values map[string]string) string {
	t.Helper()
	path := o.Path
	for _, name := range o.Params {
		value, ok := values[name]
		require.True(
			t,
			ok,
			"%s %s: there is no sample of {%s}; add one to the samples of TestEveryOperation",
			o.Method,
			o.Path,
			name,
		)
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	return path
}

// Sample returns a body with the required fields of the operation's schema, one byte if the body is
// not JSON, or nil if the operation has no body.
func (o *Operation) Sample(t *testing.T) any {
	t.Helper()
	if !o.Body {
		return nil
	}
	if !o.JSON {
		return []byte("x")
	}
	out := map[string]any{}
	properties, _ := o.Schema["properties"].(map[string]any)
	required, _ := o.Schema["required"].([]any)
	for _, name := range required {
		p, _ := properties[name.(string)].(map[string]any)
		if examples, ok := p["examples"].([]any); ok && len(examples) > 0 {
			out[name.(string)] = examples[0]
			continue
		}
		switch p["type"] {
		case "string":
			out[name.(string)] = "sample"
		case "integer", "number":
			out[name.(string)] = 1
		case "boolean":
			out[name.(string)] = true
		case "object":
			out[name.(string)] = map[string]any{}
		default:
			out[name.(string)] = []any{}
		}
	}
	return out
}
