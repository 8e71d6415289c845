package translate

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// portable returns copies of messages without fields and reasoning that other protocols do not have. It returns an
// error if a field or a part is lost that is not one of the hints.
func portable(in []abi.Message) ([]abi.Message, error) {
	out := make([]abi.Message, len(in))
	for i := range in {
		var err error
		if out[i], err = portableMessage(in[i], fmt.Sprintf("messages[%d]", i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func portableMessage(m abi.Message, where string) (abi.Message, error) {
	if err := onlyHints(m.Unknown, where); err != nil {
		return m, err
	}
	if text := wire.Refusal(&m); text != "" && m.Content.String() == "" {
		m.Content = abi.Text(text)
	}
	m.Unknown, m.ReasoningContent = nil, ""
	if m.Content.IsParts() {
		parts, err := portableParts(m.Content.Parts(), where+".content")
		if err != nil {
			return m, err
		}
		switch {
		case len(parts) > 0:
			m.Content = abi.Parts(parts...)
		case len(m.ToolCalls) > 0:
			m.Content = abi.Content{}
		default:
			m.Content = abi.Text("")
		}
	}
	calls := make([]abi.ToolCall, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		at := fmt.Sprintf("%s.tool_calls[%d]", where, i)
		if c.Type != "" && c.Type != "function" {
			return m, invalid(at+".type",
				"%s is a call of a tool of the type %.40q, which the upstream does not have", at, c.Type)
		}
		if err := onlyHints(c.Unknown, at); err != nil {
			return m, err
		}
		c.Unknown = nil
		calls[i] = c
	}
	if len(calls) > 0 {
		m.ToolCalls = calls
	}
	return m, nil
}

func portableParts(in []abi.Part, where string) ([]abi.Part, error) {
	var out []abi.Part
	for i, p := range in {
		at := fmt.Sprintf("%s[%d]", where, i)
		switch {
		case wire.IsReasoning(&p):
			continue
		case wire.Opaque(&p):
			return nil, invalid(at, "%s has the type %.60q, which the upstream's protocol does not have", at, p.Type)
		case p.Type == abi.PartFile && rawjson.Value{Text: p.File}.Get("file_id").Exists():
			return nil, invalid(at, "%s is a file that another provider stores; send its data", at)
		}
		if err := onlyHints(p.Unknown, at); err != nil {
			return nil, err
		}
		p.Unknown = nil
		out = append(out, p)
	}
	return out, nil
}

// hints are the names of fields that can be left out, because they do not change the request to the model.
// portableMessage turns a refusal into text.
var hints = map[string]bool{
	"cache_control": true, "prompt_cache_breakpoint": true, "index": true, wire.KindRefusal: true,
}

// onlyHints returns an error if a field of an object has no equivalent in other protocols.
func onlyHints(fields abi.Fields, where string) error {
	for _, f := range fields {
		if !hints[f.Name] && !isEmpty(rawjson.Value{Text: f.Value}) {
			return invalid(
				where+"."+f.Name,
				"%s has the field %.60q, which the upstream's protocol does not have",
				where,
				f.Name,
			)
		}
	}
	return nil
}

// isEmpty reports whether a value is null, false, "", [] or {}.
func isEmpty(v rawjson.Value) bool {
	switch {
	case v.IsNull(), string(v.Text) == "false", string(v.Text) == `""`:
		return true
	case v.IsArray():
		return len(v.Elements()) == 0
	case v.IsObject():
		return len(v.Members()) == 0
	}
	return false
}

func invalid(param, format string, args ...any) *wire.Error {
	err := wire.Errorf(wire.CodeInvalid, format, args...)
	err.Param = param
	return err
}
