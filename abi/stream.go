package abi

// A Sent is what a module hands to send.
type Sent struct {
	Chunks []Chunk `json:"chunks"`
}

// A Received is the reply of recv: the chunks that wait, or, once, the end.
// Where neither is there is nothing more to come.
type Received struct {
	Chunks []Chunk    `json:"chunks,omitempty"`
	End    *StreamEnd `json:"end,omitempty"`
}

// A StreamEnd is what a stream came to: what next would have replied.
type StreamEnd struct {
	Response *Response `json:"response,omitempty"` // of a model
	Result   *Result   `json:"result,omitempty"`   // of a tool
}
