package puppet

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// Messages formats messages in one line, separated by " | ".
func Messages(list []abi.Message) string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = Message(&list[i])
	}
	return strings.Join(out, " | ")
}

// Message formats a message: the first letter of its role, its text and calls.
func Message(m *abi.Message) string {
	if m == nil {
		return "none"
	}
	s := m.Role[:1]
	if m.ToolCallID != "" {
		s += "#" + m.ToolCallID
	}
	s += ":" + m.Content.String()
	for _, c := range m.ToolCalls {
		s += " " + c.Function.Name + "#" + c.ID + c.Function.Arguments
	}
	return s
}

func declared(tools []abi.Tool) string {
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
	}
	return strings.Join(names, ",")
}

func active(tools []abi.StateTool) string {
	var names []string
	for i := range tools {
		if tools[i].Active {
			names = append(names, tools[i].Name)
		}
	}
	return strings.Join(names, ",")
}

func response(r *abi.Response, failed *abi.Error) string {
	if failed != nil {
		return "error " + failed.Message
	}
	return Message(&r.Message)
}

func result(r *abi.Result, failed *abi.Error) string {
	switch {
	case failed != nil:
		return "error " + failed.Message
	case r.IsError:
		return "is_error " + r.Content.String()
	default:
		return r.Content.String()
	}
}

func call(c *abi.Call) string { return c.ID + " " + c.Name + c.Arguments }
