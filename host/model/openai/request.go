package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// reserved returns advice for a parameter name that belongs to another part of the request's body,
// or "". It ignores case, since some endpoints do.
func reserved(name string) string {
	switch {
	case strings.EqualFold(name, "model"):
		return "give the request another model"
	case strings.EqualFold(name, "messages"):
		return "change the request's messages"
	case strings.EqualFold(name, "tools"):
		return "change the request's tools"
	case strings.EqualFold(name, "stream"):
		return "a request streams if its caller wants chunks"
	}
	return ""
}

// body encodes the body of a request: the model, the messages and the tools, followed by the
// parameters unchanged, in the order of their names.
func (c *Client) body(req *model.Request, stream, options bool) ([]byte, error) {
	var b object
	if err := b.add("model", req.Model); err != nil {
		return nil, err
	}
	if err := b.add("messages", c.messages(req.Messages)); err != nil {
		return nil, invalid("a message cannot be sent: %w", err)
	}
	if len(req.Tools) > 0 {
		if err := b.add("tools", tools(req.Tools)); err != nil {
			return nil, invalid("a tool cannot be sent: %w", err)
		}
	}
	if stream {
		b.raw("stream", []byte("true"))
		if options {
			b.raw("stream_options", []byte(`{"include_usage":true}`))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Params)) {
		value := req.Params[name]
		if instead := reserved(name); instead != "" {
			return nil, invalid("%q is not a parameter; %s", name, instead)
		}
		if err := jsoncodec.Valid(value); err != nil {
			return nil, invalid("parameter %q is not JSON: %w", name, err)
		}
		if name == "stream_options" && !stream {
			continue // endpoints reject stream_options without stream
		}
		b.raw(name, value)
	}
	return b.bytes(), nil
}

func invalid(format string, args ...any) error {
	return model.Errorf(abi.CodeInvalid, format, args...)
}

// messages returns the messages as the endpoint takes them: without the host's internal fields,
// with the parts of tool results moved by moveParts, and with the endpoint's name for reasoning.
func (c *Client) messages(in []abi.Message) []abi.Message {
	in = moveParts(in)
	out := make([]abi.Message, len(in))
	for i, m := range in {
		m.ID, m.Extra, m.Origin = "", nil, ""
		if m.ReasoningContent != "" && c.shortReasoning.Load() {
			m.Unknown = append(slices.Clone(m.Unknown), abi.Field{Name: "reasoning", Value: text(m.ReasoningContent)})
			m.ReasoningContent = ""
		}
		out[i] = m
	}
	return out
}

type functionTool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// tools returns the tools in the form of the API. A tool without parameters gets an empty schema,
// since some endpoints require one.
func tools(in []abi.Tool) []functionTool {
	out := make([]functionTool, len(in))
	for i, t := range in {
		if len(t.Parameters) == 0 || string(t.Parameters) == "null" {
			t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out[i] = functionTool{"function", function{t.Name, t.Description, t.Parameters}}
	}
	return out
}

// An object encodes a JSON object field by field.
type object struct{ b bytes.Buffer }

func (o *object) raw(name string, value []byte) {
	if o.b.Len() == 0 {
		o.b.WriteByte('{')
	} else {
		o.b.WriteByte(',')
	}
	o.b.Write(text(name))
	o.b.WriteByte(':')
	o.b.Write(value)
}

func (o *object) add(name string, value any) error {
	b, err := abijson.Marshal(value)
	if err != nil {
		return err
	}
	o.raw(name, b)
	return nil
}

func (o *object) bytes() []byte { return append(o.b.Bytes(), '}') }

// text encodes a string as JSON.
func text(s string) []byte {
	b, err := abijson.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return b
}
