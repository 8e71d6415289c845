package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
)

// ClientReason is the reason of the interrupts that tools of [ByClient] make.
const ClientReason = "a tool that the client runs"

// ByClient returns a tool that whoever started the run runs for it: a front end,
// or the caller of an API. A call of it pauses the run; what its interrupt is
// answered with is the result: a JSON string is its text, and an object is an
// [abi.Result]. All hooks of a tool call are around it.
func ByClient(declaration abi.Tool) Tool {
	return Func(declaration, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		answer, ok := Answer(ctx)
		if !ok {
			return nil, &abi.Interrupt{Reason: ClientReason}
		}
		return clientResult(answer)
	})
}

// ByClientIs reports whether an interrupt is a call of a tool of [ByClient].
func ByClientIs(p abi.Pending) bool {
	return p.Entry == "" && p.Hook == "" && p.Call != nil && p.Reason == ClientReason
}

// clientResult reads what a client says a tool came to.
func clientResult(answer json.RawMessage) (*abi.Result, error) {
	answer = bytes.TrimSpace(answer)
	var text string
	var res abi.Result
	switch {
	case len(answer) > 0 && answer[0] == '"':
		if err := json.Unmarshal(answer, &text); err != nil {
			return nil, fmt.Errorf("the client's answer is no JSON string: %w", err)
		}
		return abi.TextResult(text), nil
	case len(answer) > 0 && answer[0] == '{':
		if _, err := abi.Decode(answer, &res); err != nil {
			return nil, fmt.Errorf("the client's answer is no result: %w", err)
		}
		return &res, nil
	default:
		return nil, fmt.Errorf("the client answered %.80s; want a text or a result", answer)
	}
}
