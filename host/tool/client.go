package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// ByClient returns a tool that runs in the client that started the run, such as a front end
// or the caller of an API. A call pauses the run. The answer to the interrupt is the result:
// a JSON string is text, and an object is an [abi.Result]. All tool hooks apply to the result.
func ByClient(declaration abi.Tool) Tool {
	return Func(declaration, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
		answer, ok := Answer(ctx)
		if !ok {
			return nil, toolcall.ClientInterrupt()
		}
		return clientResult(answer)
	})
}

// clientResult parses a client's answer as a tool result.
func clientResult(answer json.RawMessage) (*abi.Result, error) {
	answer = bytes.TrimSpace(answer)
	var text string
	var res abi.Result
	switch {
	case len(answer) > 0 && answer[0] == '"':
		if err := json.Unmarshal(answer, &text); err != nil {
			return nil, fmt.Errorf("the client's answer is not a JSON string: %w", err)
		}
		return abi.TextResult(text), nil
	case len(answer) > 0 && answer[0] == '{':
		if _, err := abijson.Decode(answer, &res); err != nil {
			return nil, fmt.Errorf("the client's answer is not a tool result: %w", err)
		}
		return &res, nil
	default:
		return nil, fmt.Errorf("the client answered %.80s; want a text or a result", answer)
	}
}
