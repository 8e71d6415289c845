package gateway

import (
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// usualOutput is the estimated number of tokens of an answer to a request without a limit. mostOutput caps the limit
// of a request.
const (
	usualOutput = 1000
	mostOutput  = 1 << 20
)

// mostChoices caps the number of answers to one request. OpenAI allows the same number.
const mostChoices = 128

// outputLimit returns the limit of tokens in v, at most mostOutput, and 0 for null. It returns mostOutput for a value
// that is not a plain integer, such as 1e4, because upstreams could read it differently.
func outputLimit(v rawjson.Value) int64 {
	if n, err := strconv.ParseInt(string(v.Text), 10, 64); err == nil {
		return min(n, mostOutput)
	}
	if v.IsNull() {
		return 0
	}
	return mostOutput
}

// tokensOf estimates the tokens of a text from its bytes.
func tokensOf(bytes int) int64 { return int64(bytes+3) / 4 }

// unestimated returns the name of a field of a request whose tokens cannot be estimated from the request: the upstream
// stores the text, or answers when the client is gone. It returns "" if there is none.
func unestimated(request rawjson.Value) string {
	for _, m := range request.Members() {
		switch m.Name {
		case "background":
			if !m.Value.IsNull() && string(m.Value.Text) != "false" {
				return m.Name
			}
		case "previous_response_id", "conversation", "prompt", "thread":
			if !m.Value.IsNull() {
				return m.Name
			}
		case "messages", "input", "system", "instructions":
			if name := storedFile(m.Value); name != "" {
				return name
			}
		}
	}
	return ""
}

// storedFile returns the name of a field that refers to a file or document elsewhere, or "".
func storedFile(v rawjson.Value) string {
	for _, element := range v.Elements() {
		if name := storedFile(element); name != "" {
			return name
		}
	}
	members := v.Members()
	kind := ""
	for _, m := range members {
		if m.Name == "type" {
			kind = m.Value.String()
		}
	}
	for _, m := range members {
		switch m.Name {
		case "file_id", "file_url":
			// The files that code of the upstream wrote are not read again.
			if !m.Value.IsNull() && !strings.HasSuffix(kind, "code_execution_output") {
				return m.Name
			}
		case "source":
			if kind == "document" && m.Value.Get("url").Exists() {
				return "url"
			}
			fallthrough
		case "content", "output", "file":
			if name := storedFile(m.Value); name != "" {
				return name
			}
		}
	}
	return ""
}
