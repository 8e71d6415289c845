package responses

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// add appends the items of a message that a module wrote.
func (e *encoder) add(m *abi.Message) error {
	switch m.Role {
	case abi.RoleSystem, abi.RoleDeveloper, abi.RoleUser:
		if len(m.ToolCalls) > 0 {
			return broken("a module added a tool call to a message of role %q", m.Role)
		}
		return e.addContent(m.Role, m.Content)
	case abi.RoleTool:
		return e.addOutput(m)
	case abi.RoleAssistant:
	default:
		return broken("a module added a message with the unknown role %.40q", m.Role)
	}
	if m.ReasoningContent != "" {
		return reasoningError()
	}
	if len(m.Content.Parts()) > 0 && (m.Content.IsParts() || m.Content.String() != "") || len(m.ToolCalls) == 0 {
		if err := e.addContent(m.Role, m.Content); err != nil {
			return err
		}
	}
	for i := range m.ToolCalls {
		if err := e.addCall(&m.ToolCalls[i]); err != nil {
			return err
		}
	}
	return nil
}

func newUser(content []byte) []byte {
	return newObject(str("type", "message"), str("role", abi.RoleUser), field{"content", content})
}

func (e *encoder) addContent(role string, c abi.Content) error {
	content, err := newContent(c, textType(role))
	if err != nil {
		return err
	}
	e.append(newObject(str("type", "message"), str("role", role), field{"content", content}))
	return nil
}

func (e *encoder) addCall(c *abi.ToolCall) error {
	if c.ID == "" || c.Function.Name == "" {
		return broken("a module added a tool call without an ID or a name")
	}
	namespace, name := e.split(c.Function.Name)
	fields := []field{str("type", "function_call"), str("call_id", c.ID), str("name", name),
		str("arguments", c.Function.Arguments)}
	if e.tools.custom[c.Function.Name] {
		input, err := wire.CustomInput(c.Function.Arguments)
		if err != nil {
			return broken("a module added the call %.100q: %v", c.ID, err)
		}
		fields = []field{str("type", "custom_tool_call"), str("call_id", c.ID), str("name", name), str("input", input)}
		e.added[c.ID] = custom
	}
	if namespace != "" {
		fields = append(fields, str("namespace", namespace))
	}
	e.append(newObject(fields...))
	return nil
}

// split returns the namespace and the name of a tool of the request.
func (e *encoder) split(name string) (namespace, rest string) {
	if e.tools.was[name] != nil {
		if namespace, rest, ok := strings.Cut(name, "."); ok {
			return namespace, rest
		}
	}
	return "", name
}

func (e *encoder) addOutput(m *abi.Message) error {
	if m.ToolCallID == "" {
		return broken("a module added the result of a tool without the ID of its call")
	}
	output, err := newContent(m.Content, "input_text")
	if err != nil {
		return err
	}
	typ := "function_call_output"
	if e.forms[m.ToolCallID] == custom || e.added[m.ToolCallID] == custom {
		typ = "custom_tool_call_output"
	}
	e.append(newObject(str("type", typ), str("call_id", m.ToolCallID), field{"output", output}))
	return nil
}
