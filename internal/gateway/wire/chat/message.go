package chat

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// The names of the field with a model's reasoning. Endpoints use one or the other.
const (
	reasoningContent = "reasoning_content"
	reasoningShort   = "reasoning"
)

// errLegacyCall is the error for a message with function_call, which the API had before tool_calls.
var errLegacyCall = errors.New("function_call is the API before tools; use tool_calls")

// A message is a message as received, and as modules see it.
type message struct {
	raw                rawjson.Value
	content, toolCalls rawjson.Value
	refusal            rawjson.Value
	text               string // the name of the field with the content that modules see
	reasoning          string // the name of the field with the reasoning
	abi                abi.Message
}

// readMessage reads a message. budget is the number of parts and calls that it may have, and is
// reduced by those that it has.
func readMessage(v rawjson.Value, budget *int) (*message, error) {
	if !v.IsObject() {
		return nil, errors.New("a message must be an object")
	}
	m := &message{raw: v, text: "content", reasoning: reasoningContent}
	for _, f := range v.Members() {
		if err := m.readField(f.Name, f.Value, budget); err != nil {
			return nil, err
		}
	}
	return m, m.readRefusal()
}

// readRefusal reads the text with which a model refused to answer. It is the content for modules, unless there
// is another one.
func (m *message) readRefusal() error {
	switch text := m.refusal.String(); {
	case !m.refusal.Exists():
		return nil
	case text == "" || m.abi.Content.IsParts() || m.abi.Content.String() != "":
		return readUnknown(wire.KindRefusal, m.refusal, &m.abi.Unknown)
	default:
		m.text, m.abi.Content = wire.KindRefusal, abi.Text(text)
		return nil
	}
}

func (m *message) readField(name string, v rawjson.Value, budget *int) error {
	switch name {
	case "role":
		return readText(name, v, &m.abi.Role)
	case "name":
		return readText(name, v, &m.abi.Name)
	case "tool_call_id":
		return readText(name, v, &m.abi.ToolCallID)
	case reasoningContent, reasoningShort:
		return m.readReasoning(name, v)
	case "content":
		m.content = v
		return readContent(v, &m.abi.Content, budget)
	case wire.KindRefusal:
		m.refusal = v
		return nil
	case "tool_calls":
		m.toolCalls = v
		return readCalls(v, &m.abi.ToolCalls, budget)
	case "id", "extra", "origin", "labels", "part_labels":
		return nil // the host's in the ABI; a client's field keeps its bytes, and modules do not see it
	case "function_call":
		if !v.IsNull() {
			return errLegacyCall
		}
	}
	return readUnknown(name, v, &m.abi.Unknown)
}

// readReasoning reads one of the fields with a model's reasoning. The first one with text is the reasoning.
func (m *message) readReasoning(name string, v rawjson.Value) error {
	if m.abi.ReasoningContent != "" || !v.IsString() || v.String() == "" {
		return readUnknown(name, v, &m.abi.Unknown)
	}
	m.reasoning, m.abi.ReasoningContent = name, v.String()
	return nil
}

// readText reads a field that is a string or null.
func readText(name string, v rawjson.Value, to *string) error {
	if !v.IsNull() && !v.IsString() {
		return fmt.Errorf("%s must be a string", name)
	}
	*to = v.String()
	return nil
}

// readUnknown reads a field that the ABI does not define.
func readUnknown(name string, v rawjson.Value, to *abi.Fields) error {
	if known := misspelled(name); known != "" {
		return fmt.Errorf("%s is spelled in another case", known)
	}
	*to = append(*to, field(name, v.Text))
	return nil
}

// spend subtracts n from the number of messages, parts and calls that a request or an answer may
// still have. It fails if too few are left.
func spend(budget *int, n int) error {
	if *budget -= n; *budget < 0 {
		return fmt.Errorf("more than %d messages, parts, tool calls and tools", maxItems)
	}
	return nil
}

// edit returns the text of the message after modules changed it to next.
func (m *message) edit(next *abi.Message) ([]byte, error) {
	if name := changedField(m.abi.Unknown, next.Unknown); name != "" {
		return nil, moduleError("a module changed the field %q of a message, which belongs to the upstream", name)
	}
	if next.Role != m.abi.Role && !knownRole(next.Role) {
		return nil, moduleError("a module gave a message the role %.100q, which chat completions do not have", next.Role)
	}
	change := map[string][]byte{}
	set := func(name, was, is string) {
		switch {
		case was == is:
		case is == "":
			change[name] = nil
		default:
			change[name] = rawjson.Quote(is)
		}
	}
	set("role", m.abi.Role, next.Role)
	set("tool_call_id", m.abi.ToolCallID, next.ToolCallID)
	set(m.reasoning, m.abi.ReasoningContent, next.ReasoningContent)
	if next.Role != abi.RoleTool { // a result has its tool's name for modules only
		set("name", m.abi.Name, next.Name)
	}
	content, err := m.editText(next.Content)
	if err != nil {
		return nil, err
	}
	if content != nil {
		change[m.text] = content
	}
	calls, err := editCalls(m.toolCalls, m.abi.ToolCalls, next.ToolCalls)
	switch {
	case err != nil:
		return nil, err
	case calls != nil && len(next.ToolCalls) == 0:
		change["tool_calls"] = nil
	case calls != nil:
		change["tool_calls"] = calls
	}
	return setMembers(m.raw, change), nil
}

// editText returns the text of the field with the content after modules changed it to next, or nil if it is the
// same. A refusal has no parts.
func (m *message) editText(next abi.Content) ([]byte, error) {
	if m.text == wire.KindRefusal && !next.IsNull() {
		next = abi.Text(next.String())
	}
	return editContent(m.content, m.abi.Content, next)
}

// changedField returns the name of a field that next lacks, adds or changes, or "". A field that is
// null counts as absent.
func changedField(old, next abi.Fields) string {
	if len(old) == 0 && len(next) == 0 {
		return ""
	}
	set := func(f abi.Field) bool { return string(f.Value) != "null" }
	was := map[string]string{}
	for _, f := range old {
		if set(f) {
			was[f.Name] = string(f.Value)
		}
	}
	for _, f := range next {
		if text, ok := was[f.Name]; set(f) && (!ok || text != string(f.Value)) {
			return f.Name
		}
		delete(was, f.Name)
	}
	for name := range was {
		return name
	}
	return ""
}

func knownRole(role string) bool {
	switch role {
	case abi.RoleSystem, abi.RoleDeveloper, abi.RoleUser, abi.RoleAssistant, abi.RoleTool:
		return true
	}
	return false
}

// encodeMessage returns the text of a message that a module added.
func encodeMessage(next *abi.Message) ([]byte, error) {
	if !knownRole(next.Role) {
		return nil, moduleError("a module added a message with the role %.100q, which chat completions do not have",
			next.Role)
	}
	if err := keepsOpaque(nil, next.Content.Parts()); err != nil {
		return nil, err
	}
	m := *next
	m.ID, m.Extra, m.Origin, m.ToolCalls = "", nil, "", nil
	if m.Role == abi.RoleTool {
		m.Name = "" // the API has no such field
	}
	if len(next.ToolCalls) > 0 {
		calls, err := editCalls(rawjson.Value{}, nil, next.ToolCalls)
		if err != nil {
			return nil, err
		}
		m.Unknown = append(slices.Clone(m.Unknown), field("tool_calls", calls))
	}
	b, err := abijson.Marshal(m)
	if err != nil {
		return nil, moduleError("a message of a module cannot be encoded: %v", err)
	}
	return b, nil
}
