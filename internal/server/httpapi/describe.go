package httpapi

import (
	"maps"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// streamExtension names, in the document, the streams of events that operations respond with if the
// request accepts them.
const streamExtension = "x-event-stream"

// EventSchema returns a reference to the schema of the events of runs. It describes the fields that most
// clients use; docs/platform.md and package abi have the others.
func EventSchema(r huma.Registry) *huma.Schema {
	text := func(about string) *huma.Schema { return &huma.Schema{Type: "string", Description: about} }
	number := func(about string) *huma.Schema { return &huma.Schema{Type: "integer", Description: about} }
	object := func(about string) *huma.Schema {
		return &huma.Schema{Type: "object", AdditionalProperties: true, Description: about}
	}
	return define(r, "Event", &huma.Schema{
		Type:                 "object",
		Description:          "An event of a run. Its type determines which fields it has.",
		Required:             []string{"type", "seq", "run", "time_ms"},
		AdditionalProperties: true,
		Properties: map[string]*huma.Schema{
			"type": text(
				"Such as run_started, chunk, message, tool_call, tool_result, decision, fault, run_paused or run_finished.",
			),
			"seq":           number("The event's number, from 1, without gaps."),
			"run":           text("The run's id."),
			"time_ms":       number("Unix time in milliseconds."),
			"step":          number("The step of the run, from 1."),
			"agent":         text("run_started, transfer: the agent."),
			"model":         text("run_started, transfer, model_attempt: the model."),
			"chunk":         object("chunk: a part of the answer, such as {\"kind\": \"text\", \"text\": \"…\"}."),
			"message":       MessageSchema(r),
			"call":          object("tool_call, tool_result: the call, with id, name and arguments."),
			"result":        object("tool_result: the result, with content."),
			"decision":      object("decision: what a gate or a person decided."),
			"entry":         text("The module that the event is about."),
			"hook":          text("The hook that the event is about."),
			"digest":        text("The digest of the module."),
			"cause":         text("fault: what went wrong."),
			"action":        text("fault, limit, repair: how the host reacted."),
			"finish_reason": text("run_finished: why the run ended, such as stop."),
			"usage":         object("run_finished: the tokens of the run."),
			"error":         object("run_finished, model_attempt: the error, with code and message."),
			"interrupts":    {Type: "array", Items: object(""), Description: "run_paused: the questions to answer."},
			"event":         object("child: an event of a sub-agent."),
		},
	})
}

// MessageSchema returns a reference to the schema of messages.
func MessageSchema(r huma.Registry) *huma.Schema {
	part := &huma.Schema{Type: "object", AdditionalProperties: true}
	return define(r, "Message", &huma.Schema{
		Type:                 "object",
		Description:          "A message in OpenAI's format.",
		Required:             []string{"role"},
		AdditionalProperties: true,
		Properties: map[string]*huma.Schema{
			"id":   {Type: "string"},
			"role": {Type: "string", Description: "system, developer, user, assistant or tool."},
			"content": {
				Description: "Text, or parts.",
				OneOf:       []*huma.Schema{{Type: "string"}, {Type: "array", Items: part}, {Type: "null"}},
			},
			"tool_calls":   {Type: "array", Items: part},
			"tool_call_id": {Type: "string"},
		},
	})
}

// define adds a schema to the document, and returns a reference to it.
func define(r huma.Registry, name string, s *huma.Schema) *huma.Schema {
	r.Map()[name] = s
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// described returns schemas for fields that are raw JSON in Go, by the name of the type and the name
// of the field.
func described(r huma.Registry) map[string]map[string]*huma.Schema {
	messages := func() *huma.Schema {
		return &huma.Schema{Type: "array", Items: MessageSchema(r)}
	}
	object := func() *huma.Schema { return &huma.Schema{Type: "object", AdditionalProperties: true} }
	return map[string]map[string]*huma.Schema{
		"RunHistory": {
			"input": messages(), "messages": messages(), "answered": object(),
			"phases": {Type: "array", Items: object()},
		},
		"StartRun": {"messages": {Type: "array", Items: object()}},
		"About":    {"config_schema": object()},
	}
}

// Finish completes the OpenAPI document. The caller has registered all routes, and serves no requests
// yet. Responses and lists that may be null in Go are described as they are sent: a generated client gets one
// type for each operation.
func (rt *Router) Finish() {
	doc := rt.api.OpenAPI()
	schemas := doc.Components.Schemas.Map()
	for name, fields := range described(doc.Components.Schemas) {
		for field, schema := range fields {
			if s := schemas[name]; s != nil && s.Properties[field] != nil {
				schema.Description = s.Properties[field].Description
				s.Properties[field] = schema
			}
		}
	}
	delete(schemas, "ErrorModel") // huma's own, which this server does not send
	delete(schemas, "ErrorDetail")
	for _, s := range schemas {
		withoutNull(s)
	}
	samples := readExamples(doc.Components.Schemas)
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			describeStreams(op)
			samples.add(op)
			for _, p := range op.Parameters {
				withoutNull(p.Schema)
			}
		}
	}
}

// withoutNull describes arrays as not nullable.
func withoutNull(s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Type == "array" {
		s.Nullable = false
	}
	withoutNull(s.Items)
	for _, p := range s.Properties {
		withoutNull(p)
	}
}

// describeStreams moves the streams of an operation that also responds with JSON to an extension. A
// generated client would have the type "object or text" for its response otherwise.
func describeStreams(op *huma.Operation) {
	streams := map[string]any{}
	json := false
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		response := op.Responses[status]
		if m := response.Content[eventStream]; m != nil {
			streams[status] = map[string]any{
				"description": "With Accept: text/event-stream: server-sent events, of which each has its number as id, its type as event, and JSON as data.",
				"schema":      m.Schema,
			}
		}
		json = json || response.Content["application/json"] != nil
	}
	if len(streams) == 0 || !json {
		return
	}
	for status := range streams {
		response := op.Responses[status]
		delete(response.Content, eventStream)
		if len(response.Content) == 0 {
			response.Content = nil
		}
	}
	op.Extensions[streamExtension] = streams
}
