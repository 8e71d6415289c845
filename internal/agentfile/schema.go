package agentfile

import (
	"encoding/json"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/agent-runner/agent-runner/host/tool/builtin"
)

// Schema returns the JSON Schema of agent.yaml for editors. Parse rejects everything that
// the schema rejects.
func Schema() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[File](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Duration](): {Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`},
		reflect.TypeFor[Bytes](): {
			Types:   []string{"string", "integer"},
			Pattern: `^[0-9]+ ?(KiB|MiB|GiB)?$`,
			Minimum: jsonschema.Ptr(1.0),
		},
		reflect.TypeFor[Path]():        {Type: "string", MinLength: jsonschema.Ptr(1)},
		reflect.TypeFor[URL]():         {Type: "string", Pattern: `^https?://.`},
		reflect.TypeFor[Builtin]():     {Type: "string", Enum: anys(builtin.Names())},
		reflect.TypeFor[onFault]():     {Type: "string", Enum: anys(onFaults)},
		reflect.TypeFor[Inline]():      {Ref: "#"},
		reflect.TypeFor[use]():         {Type: "string", Enum: anys(uses)},
		reflect.TypeFor[onLimit]():     {Type: "string", Enum: anys(onLimits)},
		reflect.TypeFor[onToolLimit](): {Type: "string", Enum: anys(onToolLimits)},
		reflect.TypeFor[Grant](): {
			Type:    "string",
			Pattern: `^(read:(all|last|none)|model|tool:.+|http:[^/]+|store)$`,
		},
		reflect.TypeFor[Command](): {
			AnyOf: []*jsonschema.Schema{
				{Type: "string", MinLength: jsonschema.Ptr(1)},
				{Type: "array", Items: &jsonschema.Schema{Type: "string"}, MinItems: jsonschema.Ptr(1)},
			},
		},
		reflect.TypeFor[json.RawMessage](): {},
	}})
	if err != nil {
		return nil, err
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "agent.yaml"
	s.Description = "An agent of agent-runner: its model, tools and middlewares."
	nullable(s)
	inline := s.Properties["agents"].Items.Properties
	inline["agent"] = &jsonschema.Schema{
		Description: inline["agent"].Description,
		AnyOf:       []*jsonschema.Schema{{Type: "null"}, {Ref: "#"}},
	}
	return s, nil
}

// nullable allows null for the objects in s, as Parse does.
func nullable(s *jsonschema.Schema) {
	for _, p := range s.Properties {
		if p.Type == "object" {
			p.Type, p.Types = "", []string{"null", "object"}
		}
		nullable(p)
	}
	if s.Items != nil {
		nullable(s.Items)
	}
}

func anys(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}

// SchemaText returns the text of docs/agent.schema.json.
func SchemaText() ([]byte, error) {
	s, err := Schema()
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}
