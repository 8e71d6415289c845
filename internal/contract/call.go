package contract

import "github.com/agent-runner/agent-runner/abi"

// ModelReply is the reply of the import "model", and of "next" in the hook wrap_model.
type ModelReply struct {
	Response *abi.Response `json:"response"`
}

// ToolReply is the reply of the import "tool", and of "next" in the hook wrap_tool_call.
type ToolReply struct {
	Result *abi.Result `json:"result"`
}

// A ToolRequest is the argument of the import "tool", whose reply is a [ToolReply].
type ToolRequest struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"` // a JSON object in a string; empty means "{}"
}

// LocalValue is the reply of the imports "local_get" and "store_get".
type LocalValue struct {
	Value   abi.JSON `json:"value"`
	Version int64    `json:"version"`
}

// LocalVersion is the reply of the imports "local_set" and "store_set".
type LocalVersion struct {
	Version int64 `json:"version"`
}

// Custom is the argument of the import "emit".
type Custom struct {
	Name string   `json:"name"`
	Data abi.JSON `json:"data,omitempty"`
}

// ConfigureInput is the input of the hook configure.
type ConfigureInput struct {
	Entry  string   `json:"entry"`
	Config abi.JSON `json:"config"`
}

// ConfigureAnswer is the answer of the hook configure. It has no fields.
type ConfigureAnswer struct{}
