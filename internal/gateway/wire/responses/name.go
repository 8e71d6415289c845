package responses

import "github.com/agent-runner/agent-runner/internal/gateway/wire"

// fieldNames are the fields that the gateway must read, and parameters that modules limit.
var fieldNames = []string{
	"action", "actions", "arguments", "background", "call_id", "content", "content_index", "conversation", "delta",
	"description", "encrypted_content", "error", "file_data", "file_id", "file_url", "id", "image_url",
	"incomplete_details", "input", "instructions", "item", "item_id", "max_output_tokens", "model", "name", "namespace",
	"operation", "output", "output_index", "output_text", "parameters", "part", "previous_response_id", "prompt",
	"reasoning", "refusal", "response", "role", "status", "stream", "summary", "temperature", "text", "tool_choice",
	"tools", "top_p", "type", "usage",
}

// misspelled returns the first name of fieldNames that wire.Misspelled reports, or "".
func (f object) misspelled() string {
	for name := range f {
		if known := wire.Misspelled(name, fieldNames); known != "" {
			return known
		}
	}
	return ""
}

// checkInput returns an error if a part of a request has a field whose name differs from a known
// one in case only. where names the part.
func (f object) checkInput(where string) error {
	if name := f.misspelled(); name != "" {
		return invalid(where, "%s has the field %s in another case", where, name)
	}
	return nil
}

// checkUpstream returns an error if a part of an answer has a field whose name differs from a known
// one in case only.
func (f object) checkUpstream() error {
	if name := f.misspelled(); name != "" {
		return upstream("the upstream's answer has the field %s in another case", name)
	}
	return nil
}
