package wire

import (
	"errors"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// For modules, the text input of a call of a custom tool is an object with the member "input".
const (
	// CustomSchema is the JSON Schema of the arguments.
	CustomSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],` +
		`"additionalProperties":false}`
	// CustomStart and CustomEnd are the text of the arguments around the escaped input.
	CustomStart = `{"input":"`
	CustomEnd   = `"}`
)

// CustomArguments returns the input of a custom tool as the arguments of a call.
func CustomArguments(input string) string { return CustomStart + Escape(input) + CustomEnd }

// CustomInput returns the input in the arguments of a call of a custom tool. It returns an error unless the arguments
// are an object whose only member is the string "input".
func CustomInput(arguments string) (string, error) {
	v, err := rawjson.Parse([]byte(arguments))
	if err != nil || len(v.Members()) != 1 || !v.Get("input").IsString() {
		return "", errors.New(`the arguments of a custom tool must be the object {"input": "…"}`)
	}
	return v.Get("input").String(), nil
}

// Escape returns text as it is within the quotes of a JSON string.
func Escape(text string) string {
	quoted := rawjson.Quote(text)
	return string(quoted[1 : len(quoted)-1])
}
