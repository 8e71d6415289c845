package chat

import (
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// fieldNames are the fields that the gateway must read, and parameters that modules limit.
var fieldNames = []string{
	"arguments", "choices", "content", "custom", "delta", "description", "error", "file", "finish_reason", "function",
	"function_call", "functions", "id", "image_url", "index", "input", "input_audio", "max_completion_tokens",
	"max_tokens", "message", "messages", "model", "n", "name", "parameters", "reasoning", "reasoning_content", "refusal",
	"role", "stop", "stream", "temperature", "text", "tool_call_id", "tool_calls", "tool_choice", "tools", "top_p", "type",
}

// misspelled returns the name of fieldNames that wire.Misspelled reports.
func misspelled(name string) string { return wire.Misspelled(name, fieldNames) }

// misspelledMember returns the first name that misspelled reports in an object.
func misspelledMember(v rawjson.Value) string {
	for _, m := range v.Members() {
		if name := misspelled(m.Name); name != "" {
			return name
		}
	}
	return ""
}
