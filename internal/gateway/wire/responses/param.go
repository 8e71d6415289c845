package responses

import (
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// Parameters that the API has under another name than OpenAI's chat completions, or in another form.
const (
	maxTokens       = "max_tokens"
	maxOutputTokens = "max_output_tokens"
	toolChoice      = "tool_choice"
)

// nested are the parameters of chat completions that are members of another field.
var nested = map[string]struct{ field, member string }{
	"reasoning_effort": {"reasoning", "effort"},
	"response_format":  {"text", "format"},
	"verbosity":        {"text", "verbosity"},
}

// absent are the parameters of chat completions for which the API has no equivalent.
var absent = []string{
	"stop", "seed", "n", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "modalities",
	"prediction", "audio", "functions", "function_call", "web_search_options",
}

// reserved are the fields that are not parameters.
var reserved = []string{
	"model", "input", "instructions", "tools", "stream", "previous_response_id", "conversation", "prompt",
	"background",
}

func (r *request) readParams() error {
	r.call.Params = abi.Params{}
	for name, v := range r.top {
		switch _, ok := nested[name]; {
		case ok, name == maxTokens, slices.Contains(reserved, name):
		case name == maxOutputTokens:
			r.call.Params[maxTokens] = v.Text
		case name == toolChoice:
			r.call.Params[name] = chatToolChoice(v)
		default:
			r.call.Params[name] = v.Text
		}
	}
	for name, at := range nested {
		if v := r.top[at.field].Get(at.member); v.Exists() {
			r.call.Params[name] = v.Text
			if name == "response_format" {
				r.call.Params[name] = nest(v, "json_schema")
			}
		}
	}
	return nil
}

// chatToolChoice returns a tool_choice in the form of chat completions.
func chatToolChoice(v rawjson.Value) []byte {
	if typ := v.Get("type").String(); typ == "function" || typ == "custom" {
		return nest(v, typ)
	}
	return v.Text
}

// nest returns an object of the given type with its other members in an object of their own. It returns values of
// other types unchanged.
func nest(v rawjson.Value, typ string) []byte {
	if v.Get("type").String() != typ {
		return v.Text
	}
	var inner []field
	for _, m := range v.Members() {
		if m.Name != "type" {
			inner = append(inner, field{m.Name, m.Value.Text})
		}
	}
	return newObject(str("type", typ), field{typ, newObject(inner...)})
}

// flatten is the inverse of nest.
func flatten(v rawjson.Value, typ string) []byte {
	inner := v.Get(typ)
	if v.Get("type").String() != typ || !inner.IsObject() {
		return v.Text
	}
	fields := []field{str("type", typ)}
	for _, m := range inner.Members() {
		if m.Name != "type" {
			fields = append(fields, field{m.Name, m.Value.Text})
		}
	}
	return newObject(fields...)
}

// editParams adds to change the fields of the parameters that differ between the request and next.
func (r *request) editParams(change map[string][]byte, next abi.Params) error {
	was := r.call.Params
	names := slices.Sorted(maps.Keys(was))
	for name := range next {
		if _, ok := was[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var inner []string
	for _, name := range names {
		if rawjson.Equal(was[name], next[name]) {
			continue
		}
		v, err := rawjson.Parse(next[name])
		if len(next[name]) > 0 && err != nil {
			return broken("a module set the parameter %.40q to a value that is not valid: %v", name, err)
		}
		if _, ok := nested[name]; ok {
			inner = append(inner, name)
			continue
		}
		if err := r.editParam(change, name, v); err != nil {
			return err
		}
	}
	for _, name := range inner {
		r.editNested(change, name, next[name])
	}
	return nil
}

func (r *request) editParam(change map[string][]byte, name string, v rawjson.Value) error {
	text := v.Text
	switch {
	case slices.Contains(reserved, name):
		return broken("a module set the parameter %q, which is not a parameter", name)
	case slices.Contains(absent, name) && !v.IsNull() && !r.top[name].Exists():
		return broken("a module set the parameter %q, which the Responses API does not have", name)
	case name == maxTokens, name == "max_completion_tokens":
		name = maxOutputTokens
	case name == toolChoice && r.tools.custom[v.Get("function").Get("name").String()]:
		text = newObject(str("type", "custom"), field{"name", v.Get("function").Get("name").Text})
	case name == toolChoice && v.IsObject():
		text = flatten(v, v.Get("type").String())
	}
	if v.IsNull() {
		text = nil
	}
	change[name] = text
	return nil
}

// editNested changes a parameter that is a member of another field, after that field itself was changed.
func (r *request) editNested(change map[string][]byte, name string, text []byte) {
	at := nested[name]
	outer, changed := change[at.field]
	if !changed {
		outer = r.top[at.field].Text
	}
	if v, err := rawjson.Parse(outer); err != nil || !v.IsObject() {
		outer = []byte("{}")
	}
	if v, err := rawjson.Parse(text); err != nil || v.IsNull() {
		text = nil
	} else if name == "response_format" {
		text = flatten(v, "json_schema")
	}
	change[at.field] = edit(outer, map[string][]byte{at.member: text})
}
