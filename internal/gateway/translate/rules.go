package translate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/chat"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
)

// common are the parameters that more than one protocol has, by their names in chat completions. An upstream's protocol
// rejects those that it lacks.
var common = []string{
	"temperature", "top_p", "max_tokens", "stop", "tool_choice", "parallel_tool_calls", "response_format",
	"reasoning_effort", "verbosity", "user", "seed", "n", "frequency_penalty", "presence_penalty", "logit_bias",
	"logprobs", "top_logprobs", "modalities", "prediction", "audio", "web_search_options",
}

// rules describe the parts of a client's requests that other protocols support.
type rules struct {
	// names are the client's names of common parameters that differ from those of chat completions.
	names map[string]string
	// hints are parameters that can be left out if their value passes the check. A nil check accepts every value.
	hints map[string]func(v rawjson.Value) bool
	// expand returns the common parameters in a parameter of the client's protocol. The error names a member.
	expand map[string]func(v rawjson.Value) (abi.Params, error)
	// tool returns the object that describes a function. It reports false for elements of tools that are not functions.
	tool func(v rawjson.Value) (rawjson.Value, bool)
	// toolFields are the fields of a function's description that are translated or can be left out.
	toolFields []string
	// list is the field with the messages or items. For those whose unknown fields are not in the ABI, fields has the
	// fields that are translated or can be left out, by type. The type "" is a message.
	list   string
	fields map[string][]string
	// asksUsage is set if clients say whether they expect the usage in a stream.
	asksUsage bool
}

func oneOf(values ...string) func(rawjson.Value) bool {
	return func(v rawjson.Value) bool { return slices.Contains(values, v.String()) }
}

// ofChat are the rules for clients of chat completions.
var ofChat = &rules{
	hints: map[string]func(rawjson.Value) bool{
		"store": nil, "metadata": nil, "stream_options": nil, "prompt_cache_key": nil, "prompt_cache_retention": nil,
		"safety_identifier": nil, "service_tier": oneOf("auto", "default"),
	},
	tool: func(v rawjson.Value) (rawjson.Value, bool) {
		return v.Get("function"), v.Get("type").String() == "function"
	},
	toolFields: []string{"name", "description", "parameters", "strict"},
	asksUsage:  true,
}

// ofResponses are the rules for clients of the Responses API.
var ofResponses = &rules{
	names: map[string]string{
		"max_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort", "response_format": "text.format",
		"verbosity": "text.verbosity",
	},
	hints: map[string]func(rawjson.Value) bool{
		"store": nil, "metadata": nil, "stream_options": nil, "prompt_cache_key": nil, "prompt_cache_retention": nil,
		"safety_identifier": nil, "client_metadata": nil, "service_tier": oneOf("auto", "default"),
		"truncation": oneOf("disabled"),
		"include": func(v rawjson.Value) bool {
			return !slices.ContainsFunc(v.Elements(), func(v rawjson.Value) bool {
				return v.String() != "reasoning.encrypted_content"
			})
		},
	},
	expand: map[string]func(rawjson.Value) (abi.Params, error){
		// The members with an equivalent are parameters of their own.
		"reasoning": func(v rawjson.Value) (abi.Params, error) {
			return nil, onlyMembers(v, "effort", "summary", "generate_summary")
		},
		"text": func(v rawjson.Value) (abi.Params, error) { return nil, onlyMembers(v, "format", "verbosity") },
	},
	tool:       func(v rawjson.Value) (rawjson.Value, bool) { return v, v.Get("type").String() == "function" },
	toolFields: []string{"type", "name", "description", "parameters", "strict"},
	list:       "input",
	fields: map[string][]string{
		"":                     {"type", "role", "content", "id", "status", "phase"},
		"message":              {"type", "role", "content", "id", "status", "phase"},
		"function_call":        {"type", "call_id", "name", "arguments", "id", "status"},
		"function_call_output": {"type", "call_id", "output", "id", "status"},
	},
}

// ofMessages are the rules for clients of the Messages API.
var ofMessages = &rules{
	names: map[string]string{"stop": "stop_sequences", "parallel_tool_calls": "tool_choice"},
	hints: map[string]func(rawjson.Value) bool{
		"metadata": nil, "cache_control": nil, "service_tier": oneOf("auto", "standard_only"),
		"thinking": func(v rawjson.Value) bool {
			kind := v.Get("type").String()
			return kind == "disabled" || kind == "adaptive"
		},
		"context_management": func(v rawjson.Value) bool { // of thinking, which is left out
			return onlyMembers(v, "edits") == nil && !slices.ContainsFunc(v.Get("edits").Elements(), func(v rawjson.Value) bool {
				return !strings.HasPrefix(v.Get("type").String(), "clear_thinking_")
			})
		},
	},
	expand: map[string]func(rawjson.Value) (abi.Params, error){
		"output_config": outputConfig,
		"output_format": func(v rawjson.Value) (abi.Params, error) { return outputFormat(v) },
	},
	tool: func(v rawjson.Value) (rawjson.Value, bool) {
		kind := v.Get("type").String()
		return v, kind == "" || kind == "custom"
	},
	toolFields: []string{
		"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming",
	},
	list: "messages",
	fields: map[string][]string{
		"":            {"role", "content"},
		"tool_use":    {"type", "id", "name", "input", "cache_control"},
		"tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
	},
}

func rulesOf(p wire.Protocol) *rules {
	switch p.(type) {
	case messages.Protocol:
		return ofMessages
	case responses.Protocol:
		return ofResponses
	case chat.Protocol:
	}
	return ofChat
}

// onlyMembers returns an error for a member of an object that is not one of names.
func onlyMembers(v rawjson.Value, names ...string) error {
	for _, m := range v.Members() {
		if !slices.Contains(names, m.Name) && !isEmpty(m.Value) {
			return errors.New(m.Name)
		}
	}
	return nil
}

// outputConfig returns the common parameters in output_config.
func outputConfig(v rawjson.Value) (abi.Params, error) {
	if err := onlyMembers(v, "effort", "format"); err != nil {
		return nil, err
	}
	out, err := outputFormat(v.Get("format"))
	if err != nil {
		return nil, err
	}
	switch effort := v.Get("effort"); effort.String() {
	case "low", "medium", "high":
		out["reasoning_effort"] = effort.Text
	case "":
	default:
		return nil, errors.New("effort")
	}
	return out, nil
}

// outputFormat returns the parameter response_format for a format of the Messages API.
func outputFormat(v rawjson.Value) (abi.Params, error) {
	switch {
	case v.IsNull():
		return abi.Params{}, nil
	case v.Get("type").String() != "json_schema" || !v.Get("schema").IsObject():
		return nil, errors.New("format")
	}
	const head = `{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`
	return abi.Params{"response_format": slices.Concat([]byte(head), v.Get("schema").Text, []byte("}}"))}, nil
}

// checkItems rejects fields of messages and items that the call of the ABI does not have.
func (r *rules) checkItems(root rawjson.Value) error {
	if r.list == "" {
		return nil
	}
	for i, v := range root.Get(r.list).Elements() {
		at := fmt.Sprintf("%s[%d]", r.list, i)
		if err := r.checkFields(v, at); err != nil {
			return err
		}
		for j, block := range v.Get("content").Elements() {
			if err := r.checkFields(block, fmt.Sprintf("%s.content[%d]", at, j)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rules) checkFields(v rawjson.Value, at string) error {
	known, ok := r.fields[v.Get("type").String()]
	if !ok {
		return nil // the ABI has all of its fields
	}
	for _, m := range v.Members() {
		switch {
		case slices.Contains(known, m.Name), isEmpty(m.Value):
		case m.Name == "caller" && m.Value.Get("type").String() == "direct": // the model itself
		default:
			return invalid(at+"."+m.Name, "%s has the field %.60q, which the upstream's protocol does not have", at, m.Name)
		}
	}
	return nil
}

// checkTools rejects tools that are no functions of the client.
func (r *rules) checkTools(root rawjson.Value) error {
	for i, v := range root.Get("tools").Elements() {
		at := fmt.Sprintf("tools[%d]", i)
		function, ok := r.tool(v)
		if !ok {
			return invalid(at, "%s has the type %.60q; the upstream has another protocol, in which only functions of the "+
				"client can be sent", at, v.Get("type").String())
		}
		for _, m := range function.Members() {
			if !slices.Contains(r.toolFields, m.Name) && !isEmpty(m.Value) {
				return invalid(at+"."+m.Name, "%s has the field %.60q, which the upstream's protocol does not have", at, m.Name)
			}
		}
	}
	return nil
}

// params returns the parameters that other protocols may have.
func (r *rules) params(in abi.Params) (abi.Params, error) {
	out := abi.Params{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		v, err := rawjson.Parse(in[name])
		if err != nil {
			return nil, invalid(name, "the parameter %.60q is not valid: %v", name, err)
		}
		check, isHint := r.hints[name]
		expand := r.expand[name]
		switch {
		case v.IsNull(), isHint && (check == nil || check(v)):
		case name == "tool_choice" && !isChoice(v):
			return nil, invalid(name, "tool_choice is of a kind that the upstream's protocol does not have")
		case slices.Contains(common, name):
			out[name] = v.Text
		case expand != nil:
			more, err := expand(v)
			if err != nil {
				name += "." + err.Error()
				return nil, invalid(name, "%.100s is not supported, because the upstream has another protocol", name)
			}
			maps.Copy(out, more)
		case !isEmpty(v):
			return nil, invalid(name, "the parameter %.60q is not supported, because the upstream has another protocol", name)
		}
	}
	return out, nil
}

// isChoice reports whether a tool_choice is one that all protocols have.
func isChoice(v rawjson.Value) bool {
	return slices.Contains([]string{"auto", "none", "required"}, v.String()) ||
		v.Get("type").String() == "function" && v.Get("function").Get("name").IsString()
}

// named returns an error of the upstream's protocol with the client's name of the parameter at fault.
func (r *rules) named(err error) error {
	known, ok := errors.AsType[*wire.Error](err)
	if !ok || r.names[known.Param] == "" {
		return err
	}
	name := r.names[known.Param]
	return invalid(name, "%s", strings.ReplaceAll(known.Message, fmt.Sprintf("%q", known.Param), fmt.Sprintf("%q", name)))
}
