package scripted

import (
	"bytes"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// line is the JSON form of a reply.
type line struct {
	Message      *abi.Message `json:"message"`
	FinishReason string       `json:"finish_reason"`
	Usage        *abi.Usage   `json:"usage"`
	Error        *abi.Error   `json:"error"`
	Chunks       []abi.Chunk  `json:"chunks"`
	Size         int          `json:"size"`
	DelayMS      int64        `json:"delay_ms"`
	Hang         bool         `json:"hang"`
}

// Parse parses replies, one JSON object per line:
//
//	{"message": {"content": "hello"}, "size": 2}
//	{"message": {"tool_calls": [{"id": "c1", "function": {"name": "now", "arguments": "{}"}}]}}
//	{"error": {"code": "model", "message": "overloaded", "status": 503, "retryable": true}}
//	{"hang": true}
//
// Other keys are finish_reason (by default it follows from the message), usage, chunks and
// delay_ms. Parse ignores empty lines and lines that start with #. An error names the line.
func Parse(text []byte) ([]Reply, error) {
	var out []Reply
	for i, b := range bytes.Split(text, []byte("\n")) {
		if b = bytes.TrimSpace(b); len(b) == 0 || b[0] == '#' {
			continue
		}
		r, err := parseLine(b)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func parseLine(b []byte) (Reply, error) {
	var l line
	unknown, err := abijson.Decode(b, &l)
	switch {
	case err != nil:
		return Reply{}, err
	case len(unknown) > 0:
		return Reply{}, fmt.Errorf(
			"unknown key %q; want message, finish_reason, usage, error, chunks, size, delay_ms or hang",
			unknown[0],
		)
	case l.Message == nil && l.Error == nil && !l.Hang:
		return Reply{}, fmt.Errorf("a reply needs a message, an error or hang")
	case l.Message != nil && l.Error != nil:
		return Reply{}, fmt.Errorf("a reply has a message or an error; an error may have chunks, which come before it")
	case l.Size < 0 || l.DelayMS < 0:
		return Reply{}, fmt.Errorf("size and delay_ms cannot be negative")
	}
	for i := range l.Chunks {
		if err := contract.CheckChunk(&l.Chunks[i]); err != nil {
			return Reply{}, fmt.Errorf("chunks[%d]: %w", i, err)
		}
	}
	var r Reply
	if l.Message != nil {
		if l.Message.Role == "" {
			l.Message.Role = abi.RoleAssistant
		}
		r = Message(*l.Message)
		r.Response.Usage = l.Usage
		if l.FinishReason != "" {
			r.Response.FinishReason = l.FinishReason
		}
	}
	if e := l.Error; e != nil {
		r.Err = &model.Error{
			Code: e.Code, Message: e.Message, Status: e.Status, Retryable: e.Retryable,
			RetryAfter: time.Duration(e.RetryAfterMS) * time.Millisecond,
		}
	}
	r.Chunks, r.Size, r.Hang, r.Delay = l.Chunks, l.Size, l.Hang, time.Duration(l.DelayMS)*time.Millisecond
	return r, nil
}
