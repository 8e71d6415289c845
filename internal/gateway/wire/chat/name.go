package chat

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// fieldNames are the fields that the gateway must know, and parameters that modules limit.
var fieldNames = []string{
	"arguments", "choices", "content", "custom", "delta", "description", "error", "file", "finish_reason", "function",
	"function_call", "functions", "id", "image_url", "index", "input", "input_audio", "max_completion_tokens",
	"max_tokens", "message", "messages", "model", "n", "name", "parameters", "reasoning", "reasoning_content", "refusal", "role",
	"stop", "stream", "temperature", "text", "tool_call_id", "tool_calls", "tool_choice", "tools", "top_p", "type",
}

// misspelled returns the name in fieldNames that a field's name differs from in case only, or "". Some
// endpoints and clients ignore case, so that such a field would hide its value from modules.
func misspelled(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= 'A' && r <= 'Z' || r > '~' }) {
		return ""
	}
	i := slices.IndexFunc(fieldNames, func(known string) bool { return strings.EqualFold(name, known) })
	if i < 0 {
		return ""
	}
	return fieldNames[i]
}

// misspelledMember returns the first name that misspelled reports in an object.
func misspelledMember(v rawjson.Value) string {
	for _, m := range v.Members() {
		if name := misspelled(m.Name); name != "" {
			return name
		}
	}
	return ""
}
