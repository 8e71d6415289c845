package responses

import (
	"errors"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A form is the form in which an item has the arguments of a call.
type form uint8

const (
	function form = iota // the string "arguments" has a JSON object
	custom               // the string "input" has any text
	native               // fields of the item's own, such as "action"
)

// A call is an item that calls a tool which the client runs.
type call struct {
	id, name string
	form     form
	text     string // the arguments as the item has them; of a native call, a JSON object of its fields
}

// defaultNamespace has the tools of clients that use no other namespace.
const defaultNamespace = "functions"

// toolName returns the name of a tool for modules: the namespace and the name, or the name alone in
// the default namespace.
func toolName(namespace, name string) string {
	if namespace == "" || namespace == defaultNamespace {
		return name
	}
	return namespace + "." + name
}

// readCall returns the call that an item makes. ok is false if the item is not a call of the client's tools.
func readCall(typ string, f object) (c call, ok bool) {
	c = call{id: f["call_id"].String(), name: toolName(f["namespace"].String(), f["name"].String())}
	switch typ {
	case "function_call":
		c.text = f["arguments"].String()
	case "custom_tool_call":
		c.form, c.text = custom, f["input"].String()
	default:
		return call{}, false
	}
	return c, true
}

// isCall reports whether an item of a type is a call that readCall reads.
func isCall(typ string) bool { return typ == "function_call" || typ == "custom_tool_call" }

// readOutputCall returns the call that an item of an answer makes, and whether it makes one. Unlike
// [readCall], it also reads the calls of tools that are a part of the API and run at the client.
func readOutputCall(typ string, v rawjson.Value, f object) (call, bool) {
	switch typ {
	case "shell_call":
		if kind := f["environment"].Get("type").String(); strings.HasPrefix(kind, "container") {
			return call{}, false // runs at the upstream
		}
	case "local_shell_call", "apply_patch_call", "computer_call":
	default:
		return readCall(typ, f)
	}
	var args []field
	for _, m := range v.Members() {
		if !isEnvelope(m.Name) {
			args = append(args, field{m.Name, m.Value.Text})
		}
	}
	id := f["call_id"].String()
	return call{id: id, name: strings.TrimSuffix(typ, "_call"), form: native, text: string(newObject(args...))}, true
}

// isEnvelope reports whether a field of a native call is not an argument.
func isEnvelope(name string) bool {
	switch name {
	case "type", "id", "call_id", "status", "caller", "created_by":
		return true
	}
	return false
}

// arguments returns the arguments as modules see them.
func (c *call) arguments() string {
	if c.form == custom {
		return wire.CustomArguments(c.text)
	}
	return c.text
}

func (c *call) abi() abi.ToolCall { return abi.NewToolCall(c.id, c.name, c.arguments()) }

// withCall returns the text of an item of the request or the answer. item makes the call was; the
// returned item makes the call now.
func withCall(item []byte, was *call, now *abi.ToolCall) ([]byte, error) {
	change := map[string][]byte{}
	if now.Function.Name != was.name {
		if was.form == native {
			return nil, errors.New("the name of a call of a built-in tool cannot change")
		}
		change["name"] = rawjson.Quote(now.Function.Name)
		if parsed(item).Get("namespace").Exists() {
			change["namespace"] = nil
		}
	}
	if now.Function.Arguments != was.arguments() {
		if err := changeArguments(change, was, now.Function.Arguments); err != nil {
			return nil, err
		}
	}
	return edit(item, change), nil
}

func changeArguments(change map[string][]byte, was *call, arguments string) error {
	switch was.form {
	case function:
		change["arguments"] = rawjson.Quote(arguments)
	case custom:
		input, err := wire.CustomInput(arguments)
		if err != nil {
			return err
		}
		change["input"] = rawjson.Quote(input)
	case native:
		now, err := rawjson.Parse([]byte(arguments))
		if err != nil || !now.IsObject() {
			return errors.New("the arguments of a built-in tool must be an object")
		}
		for _, m := range parsed([]byte(was.text)).Members() {
			change[m.Name] = nil
		}
		for _, m := range now.Members() {
			if isEnvelope(m.Name) {
				return errors.New("the arguments of a built-in tool must not have the field " + m.Name)
			}
			change[m.Name] = m.Value.Text
		}
	}
	return nil
}
