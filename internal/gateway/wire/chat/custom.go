package chat

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// The types of tools and of their calls. A custom tool receives text instead of JSON.
const (
	typeFunction = "function"
	typeCustom   = "custom"
)

// The text around the escaped input of a custom tool in a call's arguments.
const (
	inputStart = `{"input":"`
	inputEnd   = `"}`
)

// inputSchema is the schema of the arguments of custom tools.
const inputSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`

// customArguments returns the input of a custom tool as a call's arguments.
func customArguments(input string) string { return inputStart + escape(input) + inputEnd }

// escape returns text as it is written within the quotes of a JSON string.
func escape(text string) string {
	quoted := rawjson.Quote(text)
	return string(quoted[1 : len(quoted)-1])
}

// customInput returns the input in a call's arguments.
func customInput(arguments string) (input string, ok bool) {
	v, err := rawjson.Parse([]byte(arguments))
	if err != nil {
		return "", false
	}
	members := v.Members()
	if len(members) != 1 || members[0].Name != "input" || !members[0].Value.IsString() {
		return "", false
	}
	return members[0].Value.String(), true
}

// inputPiece returns the input that a chunk adds to a call of a custom tool.
func inputPiece(arguments string) string {
	if arguments == inputEnd {
		return "" // a quote is escaped within the input
	}
	piece := strings.TrimPrefix(arguments, inputStart)
	return rawjson.Value{Text: []byte(`"` + piece + `"`)}.String()
}

// typeOf returns the type of a call. Some clients and endpoints omit it.
func typeOf(c *abi.ToolCall) string {
	if c.Type == "" {
		return typeFunction
	}
	return c.Type
}
