package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/agent-runner/agent-runner/internal/abijson"
)

// schemaKey is the key under which a tool's unmodified schema passes through the SDK.
const schemaKey = "agent-runner/inputSchema"

// exact rewrites a response so that the SDK loses nothing. The SDK decodes schemas and structured
// content to Go values: numbers become float64, and keys lose their order. exact adds a tool's
// schema as a string under schemaKey, and converts structured content without other content to
// text.
func exact(message []byte) []byte {
	if !bytes.Contains(message, []byte(`"inputSchema"`)) && !bytes.Contains(message, []byte(`"structuredContent"`)) {
		return message
	}
	response := object(message)
	result := object(response["result"])
	if result == nil {
		return message
	}
	switch {
	case result["tools"] != nil:
		result["tools"] = exactTools(result["tools"])
	case result["structuredContent"] != nil && isEmptyArray(result["content"]):
		result["content"] = marshal([]map[string]string{{"type": "text", "text": string(result["structuredContent"])}})
		delete(result, "structuredContent")
	default:
		return message
	}
	response["result"] = marshal(result)
	return marshal(response)
}

func exactTools(tools json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(tools, &list) != nil {
		return tools
	}
	for i := range list {
		tool := object(list[i])
		if tool == nil || tool["inputSchema"] == nil {
			continue
		}
		meta := object(tool["_meta"])
		if meta == nil {
			meta = map[string]json.RawMessage{}
		}
		meta[schemaKey] = marshal(string(tool["inputSchema"]))
		tool["_meta"] = marshal(meta)
		list[i] = marshal(tool)
	}
	return marshal(list)
}

// object decodes a JSON object. It returns nil for any other value.
func object(b []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	return m
}

func isEmptyArray(b json.RawMessage) bool {
	var list []json.RawMessage
	return len(b) == 0 || json.Unmarshal(b, &list) == nil && len(list) == 0
}

// marshal encodes a value that was decoded from JSON. Encoding such a value cannot fail.
func marshal(v any) json.RawMessage {
	b, err := abijson.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
