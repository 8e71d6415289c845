package messages

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// The parameters that have another name or form in the chat API.
const (
	paramStop     = "stop"
	paramChoice   = "tool_choice"
	paramParallel = "parallel_tool_calls"
	paramMaxNew   = "max_completion_tokens" // the chat API's newer name for max_tokens

	fieldStop     = "stop_sequences"
	fieldParallel = "disable_parallel_tool_use" // in tool_choice
)

// params returns fields of a request as parameters, with the names and forms of the chat API.
func params(fields []rawjson.Member) abi.Params {
	p := abi.Params{}
	for _, f := range fields {
		switch f.Name {
		case fieldStop, paramChoice:
		default:
			p[f.Name] = f.Value.Text
		}
	}
	if stop := get(fields, fieldStop); stop.Exists() {
		p[paramStop] = stop.Text
	}
	if choice := get(fields, paramChoice); choice.Exists() {
		p[paramChoice] = chatChoice(choice)
		if choice.Get(fieldParallel).IsTrue() {
			p[paramParallel] = []byte("false")
		}
	}
	return p
}

// chatChoice returns the choice of a tool as the chat API has it.
func chatChoice(v rawjson.Value) []byte {
	switch v.Get("type").String() {
	case "auto":
		return []byte(`"auto"`)
	case "any":
		return []byte(`"required"`)
	case "none":
		return []byte(`"none"`)
	case "tool":
		return slices.Concat([]byte(`{"type":"function","function":{"name":`),
			rawjson.Quote(v.Get("name").String()), []byte("}}"))
	}
	return v.Text
}

// encodeParams sets fields in change whose parameters modules changed.
func (r *request) encodeParams(change map[string][]byte, next abi.Params) error {
	old := r.call.Params
	choice := false
	for name, value := range next {
		if rawjson.Equal(value, old[name]) {
			continue
		}
		if err := setParam(change, name, value); err != nil {
			return err
		}
		choice = choice || name == paramChoice || name == paramParallel
	}
	for name := range old {
		if _, ok := next[name]; !ok {
			if err := setParam(change, name, nil); err != nil {
				return err
			}
			choice = choice || name == paramChoice || name == paramParallel
		}
	}
	if choice {
		value, err := newChoice(next)
		if err != nil {
			return moduleError("%v", err)
		}
		change[paramChoice] = value
	}
	return nil
}

// setParam sets the field of a parameter. An absent value or null removes the field.
func setParam(change map[string][]byte, name string, value []byte) error {
	if isNull(value) {
		value = nil
	}
	switch name {
	case "model", "stream", "messages", "system", "tools", fieldStop, FieldThread:
		return moduleError("%q is not a parameter", name)
	case paramChoice, paramParallel:
		return nil
	case paramStop:
		name = fieldStop
		if len(value) > 0 && value[0] == '"' {
			value = rawjson.Array([][]byte{value})
		}
	case paramMaxNew:
		name = "max_tokens"
	}
	change[name] = value
	return nil
}

// newChoice returns the field tool_choice for the parameters tool_choice and parallel_tool_calls, or nil.
func newChoice(params abi.Params) ([]byte, error) {
	choice, err := ownChoice(params[paramChoice])
	if err != nil || string(params[paramParallel]) != "false" {
		return choice, err
	}
	if choice == nil {
		choice = []byte(`{"type":"auto"}`)
	}
	v, err := rawjson.Parse(choice)
	if err != nil {
		return nil, fmt.Errorf("tool_choice is invalid: %w", err)
	}
	return edited(v, func(v rawjson.Value, e *rawjson.Edits) {
		e.Members(v, map[string][]byte{fieldParallel: []byte("true")})
	}), nil
}

// ownChoice returns tool_choice for a choice of the chat API, or nil if there is none.
func ownChoice(value []byte) ([]byte, error) {
	if isNull(value) {
		return nil, nil
	}
	v, err := rawjson.Parse(value)
	if err != nil {
		return nil, fmt.Errorf("tool_choice is invalid: %w", err)
	}
	switch v.String() {
	case "auto":
		return []byte(`{"type":"auto"}`), nil
	case "required":
		return []byte(`{"type":"any"}`), nil
	case "none":
		return []byte(`{"type":"none"}`), nil
	}
	if name := v.Get("function").Get("name"); name.IsString() {
		return slices.Concat([]byte(`{"type":"tool","name":`), name.Text, []byte("}")), nil
	}
	if !v.IsObject() {
		return nil, errors.New("tool_choice is not one of the chat API")
	}
	return v.Text, nil
}

func isNull(value []byte) bool { return len(value) == 0 || bytes.Equal(value, []byte("null")) }
