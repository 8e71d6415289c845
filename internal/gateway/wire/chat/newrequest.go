package chat

import (
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// NewRequest returns the body of a new request: the model, the messages and the tools, followed by the parameters in
// the order of their names. Fields and parts that the ABI does not define pass, except for reasoning that only another
// API can read. Images, audio and files of a tool's result move to a message of the user after the results.
func (Protocol) NewRequest(call *wire.Call) ([]byte, error) {
	messages, err := abijson.Marshal(newMessages(call.Messages))
	if err != nil {
		return nil, invalid("messages", "a message cannot be sent: %v", err)
	}
	fields := abi.Fields{field("model", rawjson.Quote(call.Model)), field("messages", messages)}
	if len(call.Tools) > 0 {
		list := make([][]byte, len(call.Tools))
		for i := range call.Tools {
			list[i] = encodeTool(&call.Tools[i])
		}
		fields = append(fields, field("tools", rawjson.Array(list)))
	}
	if call.Stream {
		fields = append(fields, field("stream", []byte("true")))
	}
	for _, name := range slices.Sorted(maps.Keys(call.Params)) {
		value := call.Params[name]
		if instead := reserved(name); instead != "" {
			return nil, invalid(name, "%q is not a parameter; %s", name, instead)
		}
		if err := jsoncodec.Valid(value); err != nil {
			return nil, invalid(name, "parameter %q is not JSON: %v", name, err)
		}
		if name == "stream_options" && !call.Stream {
			continue // endpoints reject stream_options without stream
		}
		fields = append(fields, field(name, value))
	}
	return object(fields...), nil
}

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

// newMessages returns messages as the API takes them: without the host's own fields, and with the parts of results
// moved by moveParts.
func newMessages(in []abi.Message) []abi.Message {
	in = moveParts(in)
	out := make([]abi.Message, len(in))
	for i, m := range in {
		m.ID, m.Extra, m.Origin = "", nil, ""
		if wire.HasForeign(&m) {
			m = withoutReasoning(m)
		}
		if text, ok := customCalls(m.ToolCalls); ok {
			m.Unknown = append(slices.Clone(m.Unknown), field("tool_calls", text))
			m.ToolCalls = nil
		}
		out[i] = m
	}
	return out
}

// customCalls returns the text of calls, and true, if one of them calls a custom tool: the encoding of
// the ABI differs from the API's.
func customCalls(calls []abi.ToolCall) (text []byte, ok bool) {
	if !slices.ContainsFunc(calls, func(c abi.ToolCall) bool { return c.Type == typeCustom }) {
		return nil, false
	}
	list := make([][]byte, len(calls))
	for i := range calls {
		list[i] = newCall(&calls[i])
	}
	return rawjson.Array(list), true
}

// withoutReasoning returns a message without the reasoning of another API, and without its text, which that API wrote.
func withoutReasoning(m abi.Message) abi.Message {
	m.ReasoningContent = ""
	parts := slices.DeleteFunc(slices.Clone(m.Content.Parts()), func(p abi.Part) bool { return wire.IsForeign(&p) })
	switch {
	case len(parts) == 1 && parts[0].Type == abi.PartText && len(parts[0].Unknown) == 0:
		m.Content = abi.Text(parts[0].Text)
	case len(parts) > 0:
		m.Content = abi.Parts(parts...)
	case len(m.ToolCalls) > 0:
		m.Content = abi.Content{}
	default:
		m.Content = abi.Text("")
	}
	return m
}
