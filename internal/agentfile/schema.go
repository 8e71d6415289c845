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
	s, err := schemaOf[File]("agent.yaml", "An agent of agent-runner: its model, tools and middlewares.")
	if err != nil {
		return nil, err
	}
	inline := s.Properties["agents"].Items.Properties
	inline["agent"] = &jsonschema.Schema{
		Description: inline["agent"].Description,
		AnyOf:       []*jsonschema.Schema{{Type: "null"}, {Ref: "#"}},
	}
	return s, nil
}

// GatewaySchema returns the JSON Schema of gateway.yaml for editors. ParseGateway rejects everything
// that the schema rejects.
func GatewaySchema() (*jsonschema.Schema, error) {
	return schemaOf[Gateway]("gateway.yaml", "A gateway of agent-runner: its routes and their modules.")
}

// schemaOf returns the schema of a file that is decoded into a T.
func schemaOf[T any](title, description string) (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
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
			Pattern: `^(read:(all|last|none)|model|tool:.+|http:[^/]+|store|set:(model|limits|labels))$`,
		},
		reflect.TypeFor[Command](): {
			AnyOf: []*jsonschema.Schema{
				{Type: "string", MinLength: jsonschema.Ptr(1)},
				{Type: "array", Items: &jsonschema.Schema{Type: "string"}, MinItems: jsonschema.Ptr(1)},
			},
		},
		reflect.TypeFor[protocol]():        {Type: "string", Enum: anys(protocols)},
		reflect.TypeFor[period]():          {Type: "string", Enum: anys(periods)},
		reflect.TypeFor[json.RawMessage](): {},
	}})
	if err != nil {
		return nil, err
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title, s.Description = title, description
	nullable(s)
	return s, nil
}

// nullable allows null for the objects in s, because Parse allows it.
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

// SchemaTexts returns the schemas of agent.yaml and gateway.yaml as JSON texts by file name.
func SchemaTexts() (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, of := range map[string]func() (*jsonschema.Schema, error){
		"agent.schema.json": Schema, "gateway.schema.json": GatewaySchema,
	} {
		s, err := of()
		if err != nil {
			return nil, err
		}
		b, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			return nil, err
		}
		out[name] = append(b, '\n')
	}
	return out, nil
}
