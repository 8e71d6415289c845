package tool

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// A Streamer is a tool that can stream its result.
type Streamer interface {
	Tool
	// Stream is like Call, but sends parts of the result to out while it runs. The model
	// receives the returned result; if it is nil, the model receives everything sent to out.
	// If no caller needs a stream, Call is used instead.
	Stream(ctx context.Context, call abi.Call, out *Out) (*abi.Result, error)
}

// StreamFunc returns a streaming tool implemented by a Go function. Without streaming, the
// result is the returned one, or everything sent to out.
func StreamFunc(
	declaration abi.Tool,
	stream func(ctx context.Context, call abi.Call, out *Out) (*abi.Result, error),
) Streamer {
	return streamTool{declaration, stream}
}

type streamTool struct {
	declaration abi.Tool
	stream      func(context.Context, abi.Call, *Out) (*abi.Result, error)
}

func (t streamTool) Declaration() abi.Tool { return t.declaration }

func (t streamTool) Stream(ctx context.Context, call abi.Call, out *Out) (*abi.Result, error) {
	return t.stream(ctx, call, out)
}

func (t streamTool) Call(ctx context.Context, call abi.Call) (*abi.Result, error) {
	out := toolcall.NewOut(toolcall.Unlimited, toolcall.Unlimited, func(abi.Chunk) error { return nil })
	res, err := t.stream(ctx, call, out)
	if err == nil && res == nil {
		res = out.Result()
	}
	return res, err
}

// Out receives the parts of a tool's result. Its methods are safe for concurrent use. They block
// until the run has room for more, and return an error once the call has ended or the result is too
// large. Later parts are discarded.
//
// Out is also an [io.Writer] of text. Characters may be split between writes.
type Out = toolcall.Out
