package chat

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// The types of tools and of their calls. A custom tool receives text instead of JSON.
const (
	typeFunction = "function"
	typeCustom   = "custom"
)

// inputPiece returns the input that a chunk adds to a call of a custom tool.
func inputPiece(arguments string) string {
	if arguments == wire.CustomEnd {
		return "" // a quote is escaped within the input
	}
	piece := strings.TrimPrefix(arguments, wire.CustomStart)
	return rawjson.Value{Text: []byte(`"` + piece + `"`)}.String()
}

// typeOf returns the type of a call. Some clients and endpoints omit it.
func typeOf(c *abi.ToolCall) string {
	if c.Type == "" {
		return typeFunction
	}
	return c.Type
}
