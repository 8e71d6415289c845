package chat

import (
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// readCalls reads the tool_calls of a message.
func readCalls(v rawjson.Value, to *[]abi.ToolCall, budget *int) error {
	if !v.IsNull() && !v.IsArray() {
		return errors.New("tool_calls must be an array")
	}
	list := v.Elements()
	if err := spend(budget, len(list)); err != nil {
		return err
	}
	for i, v := range list {
		c, err := readCall(v)
		if err != nil {
			return fmt.Errorf("tool_calls[%d]: %w", i, err)
		}
		*to = append(*to, c)
	}
	return nil
}

// readCall reads a tool call. The arguments of a custom tool are its input.
func readCall(v rawjson.Value) (c abi.ToolCall, err error) {
	if !v.IsObject() {
		return c, errors.New("a tool call must be an object")
	}
	var function, custom rawjson.Value
	for _, m := range v.Members() {
		switch m.Name {
		case "id":
			err = readText(m.Name, m.Value, &c.ID)
		case "type":
			err = readText(m.Name, m.Value, &c.Type)
		case typeFunction:
			function = m.Value
		case typeCustom:
			custom = m.Value
		default:
			err = readUnknown(m.Name, m.Value, &c.Unknown)
		}
		if err != nil {
			return c, err
		}
	}
	if !function.IsNull() && !custom.IsNull() {
		return c, errors.New("a tool call has function or custom, not both")
	}
	if c.Type != typeCustom && custom.IsNull() {
		return c, readFunction(function, "arguments", &c.Function)
	}
	if c.Type != typeCustom || !custom.IsObject() {
		return c, errors.New("a tool call of the type custom has the object custom, and no other has it")
	}
	err = readFunction(custom, "input", &c.Function)
	c.Function.Arguments = wire.CustomArguments(c.Function.Arguments)
	return c, err
}

// readFunction reads the name of a call's tool and the call's arguments into to. The arguments are
// in the field called text.
func readFunction(v rawjson.Value, text string, to *abi.FunctionCall) (err error) {
	if !v.IsNull() && !v.IsObject() {
		return errors.New("function must be an object")
	}
	for _, m := range v.Members() {
		switch m.Name {
		case "name":
			err = readText(m.Name, m.Value, &to.Name)
		case text:
			err = readText(m.Name, m.Value, &to.Arguments)
		default:
			if known := misspelled(m.Name); known != "" {
				err = fmt.Errorf("%s is spelled in another case", known)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// editCalls returns the text of tool_calls after modules changed the calls old, which v contains, to
// next. The text is nil if nothing changed.
func editCalls(v rawjson.Value, old, next []abi.ToolCall) ([]byte, error) {
	elements := v.Elements()
	place := map[string][]int{} // indices in old, by ID; a hostile history may repeat an ID
	for i := range old {
		place[old[i].ID] = append(place[old[i].ID], i)
	}
	e := rawjson.Edits{Doc: v.Text}
	inPlace := len(old) == len(next)
	list := make([][]byte, 0, len(next))
	for i := range next {
		at := place[next[i].ID]
		if len(at) == 0 {
			text, err := encodeCall(&next[i])
			if err != nil {
				return nil, err
			}
			list, inPlace = append(list, text), false
			continue
		}
		place[next[i].ID] = at[1:]
		was := root(elements[at[0]])
		text, err := editCall(was, &old[at[0]], &next[i])
		if err != nil {
			return nil, err
		}
		list, inPlace = append(list, text), inPlace && at[0] == i
		if inPlace && string(text) != string(was.Text) {
			e.Replace(relative(elements[i], v), text)
		}
	}
	switch {
	case !inPlace:
		return rawjson.Array(list), nil
	case e.Changed():
		return e.Apply(), nil
	}
	return nil, nil
}

// relative returns element with its offset counted from the start of v, which contains it.
func relative(element, v rawjson.Value) rawjson.Value {
	return rawjson.Value{Text: element.Text, At: element.At - v.At}
}

// editCall returns the text of a call after modules changed it from old, whose text is v, to next.
func editCall(v rawjson.Value, old, next *abi.ToolCall) ([]byte, error) {
	if name := changedField(old.Unknown, next.Unknown); name != "" || typeOf(old) != typeOf(next) {
		if name == "" {
			name = "type"
		}
		return nil, moduleError("a module changed the field %q of the tool call %.100q, which belongs to the upstream",
			name, old.ID)
	}
	if old.Function == next.Function {
		return v.Text, nil
	}
	inner := v.Get(typeOf(old))
	if !inner.IsObject() {
		return encodeCall(next)
	}
	change := map[string][]byte{}
	if old.Function.Name != next.Function.Name {
		change["name"] = rawjson.Quote(next.Function.Name)
	}
	if old.Function.Arguments != next.Function.Arguments {
		name, value, err := argumentsField(next)
		if err != nil {
			return nil, err
		}
		change[name] = rawjson.Quote(value)
	}
	return setMembers(v, map[string][]byte{typeOf(old): setMembers(inner, change)}), nil
}

// argumentsField returns the name and the value of the field that holds a call's arguments.
func argumentsField(c *abi.ToolCall) (name, value string, err error) {
	if typeOf(c) != typeCustom {
		return "arguments", c.Function.Arguments, nil
	}
	input, err := wire.CustomInput(c.Function.Arguments)
	if err != nil {
		return "", "", moduleError("a module gave the custom tool %.100q arguments that are not {\"input\": \"…\"}",
			c.Function.Name)
	}
	return "input", input, nil
}

// encodeCall returns the text of a new call.
func encodeCall(c *abi.ToolCall) ([]byte, error) {
	name, value, err := argumentsField(c)
	if err != nil {
		return nil, err
	}
	inner := object(field("name", rawjson.Quote(c.Function.Name)), field(name, rawjson.Quote(value)))
	fields := abi.Fields{
		field("id", rawjson.Quote(c.ID)),
		field("type", rawjson.Quote(typeOf(c))),
		field(typeOf(c), inner),
	}
	return object(append(fields, c.Unknown...)...), nil
}
