package responses

import (
	"slices"
	"strings"
)

// fieldNames are the fields that the gateway must know, and parameters that modules limit.
var fieldNames = []string{
	"action", "actions", "arguments", "background", "call_id", "content", "content_index", "conversation", "delta",
	"description", "encrypted_content", "error", "file_data", "file_id", "file_url", "id", "image_url",
	"incomplete_details", "input", "instructions", "item", "item_id", "max_output_tokens", "model", "name", "namespace",
	"operation", "output", "output_index", "output_text", "parameters", "part", "previous_response_id", "prompt",
	"reasoning", "refusal", "response", "role", "status", "stream", "summary", "temperature", "text", "tool_choice",
	"tools", "top_p", "type", "usage",
}

// misspelled returns a name in fieldNames that a field's name differs from in case only, or "". Some endpoints and
// clients ignore case, so that such a field would hide its value from modules.
func (f object) misspelled() string {
	for name := range f {
		if !strings.ContainsFunc(name, func(r rune) bool { return r >= 'A' && r <= 'Z' || r > '~' }) {
			continue
		}
		i := slices.IndexFunc(fieldNames, func(known string) bool { return strings.EqualFold(name, known) })
		if i >= 0 {
			return fieldNames[i]
		}
	}
	return ""
}

// checkInput returns an error if a part of a request has a misspelled field. where names the part.
func (f object) checkInput(where string) error {
	if name := f.misspelled(); name != "" {
		return invalid(where, "%s has the field %s in another case", where, name)
	}
	return nil
}

// checkUpstream returns an error if a part of an answer has a misspelled field.
func (f object) checkUpstream() error {
	if name := f.misspelled(); name != "" {
		return upstream("the upstream's answer has the field %s in another case", name)
	}
	return nil
}
