package contract

import "github.com/agent-runner/agent-runner/abi"

// A Sent is the argument of the import "send".
type Sent struct {
	Chunks []abi.Chunk `json:"chunks"`
}

// A Received is the reply of the import "recv": the available chunks or, once, the end of the
// stream. If both fields are empty, the stream has ended and its end was already delivered.
type Received struct {
	Chunks []abi.Chunk `json:"chunks,omitempty"`
	End    *StreamEnd  `json:"end,omitempty"`
}

// A StreamEnd is the final result of a stream: the reply that next would have returned.
type StreamEnd struct {
	Response *abi.Response `json:"response,omitempty"` // set for a model call
	Result   *abi.Result   `json:"result,omitempty"`   // set for a tool call
}
