// Package native provides middlewares in Go. They run in the host's process, with its permissions;
// untrusted middlewares must be modules. The constructors cover the usual cases. For other cases, set
// the functions of a [Middleware].
package native

import (
	"context"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
)

type (
	// A Call is one call of a hook: the run, the messages, run-local values, and next.
	Call = hook.Call
	// A Stream is the answer of a model or a tool in pieces.
	Stream[T any] = hook.Stream[T]
)

// WithInstruction returns a middleware that adds text to the agent's instruction, as a paragraph of
// its own.
func WithInstruction(text string) *Middleware {
	return &Middleware{
		BeforeAgent: func(_ context.Context, _ *Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			instruction := paragraph(in.Instruction, text)
			return &abi.BeforeAgentAnswer{Instruction: &instruction}, nil
		},
	}
}

// A Tool is a tool that a native middleware adds to the agent.
type Tool struct {
	abi.Tool
	Call func(ctx context.Context, call abi.Call) (*abi.Result, error)
	// ReturnDirectly ends the run with the tool's result, unless the result is an error.
	ReturnDirectly bool
}

// WithTools returns a middleware that adds tools to the agent.
func WithTools(tools ...Tool) *Middleware {
	declared := make([]abi.Tool, len(tools))
	var direct []string
	for i, t := range tools {
		declared[i] = t.Tool
		if t.ReturnDirectly {
			direct = append(direct, t.Name)
		}
	}
	n := &Middleware{
		BeforeAgent: func(_ context.Context, _ *Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			out := &abi.BeforeAgentAnswer{Tools: abi.ToolsPatch{Add: declared}}
			if direct != nil {
				out.ReturnDirectly = slices.Concat(in.ReturnDirectly, direct)
			}
			return out, nil
		},
	}
	n.CallTool = func(ctx context.Context, _ *Call, in *abi.CallToolInput) (*abi.CallToolAnswer, error) {
		i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == in.Call.Name })
		if i < 0 {
			return nil, &abi.Error{Code: abi.CodeNotFound, Message: "no tool " + in.Call.Name}
		}
		res, err := tools[i].Call(ctx, in.Call)
		return &abi.CallToolAnswer{Result: res}, err
	}
	return n
}

// WithModelWrapper returns a middleware that calls wrap instead of the model. wrap calls next to call
// the model, and returns the response.
func WithModelWrapper(
	wrap func(
		ctx context.Context, req abi.Request, next func(context.Context, abi.RequestPatch) (*abi.Response, error),
	) (*abi.Response, error),
) *Middleware {
	return &Middleware{
		WrapModel: func(ctx context.Context, c *Call, in *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			res, err := wrap(ctx, in.Request, c.NextModel)
			return &abi.WrapModelAnswer{Response: res}, err
		},
	}
}

// WithModelStream returns a middleware that calls fn with each model answer while it arrives. The
// chunks that fn sends become the answer; if fn sends none, the answer is unchanged.
//
//	native.WithModelStream(func(
//		ctx context.Context, _ abi.Request, answer *native.Stream[abi.Response], send func(...abi.Chunk) error,
//	) error {
//		for chunk := range answer.Chunks() {
//			chunk.Text = strings.ToUpper(chunk.Text)
//			if err := send(chunk); err != nil {
//				return err
//			}
//		}
//		return answer.End()
//	})
func WithModelStream(
	fn func(ctx context.Context, req abi.Request, answer *Stream[abi.Response], send func(...abi.Chunk) error) error,
) *Middleware {
	return &Middleware{
		WrapModel: func(ctx context.Context, c *Call, in *abi.WrapModelInput) (*abi.WrapModelAnswer, error) {
			return nil, fn(ctx, in.Request, c.StreamModel(ctx, abi.RequestPatch{}),
				func(chunks ...abi.Chunk) error { return c.Send(ctx, chunks...) })
		},
	}
}

// WithToolCallWrapper returns a middleware that calls wrap instead of a tool. wrap calls next to call
// the tool, and returns the result.
func WithToolCallWrapper(
	wrap func(
		ctx context.Context, call abi.Call, next func(context.Context, abi.CallPatch) (*abi.Result, error),
	) (*abi.Result, error),
) *Middleware {
	return &Middleware{
		WrapToolCall: func(ctx context.Context, c *Call, in *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			res, err := wrap(ctx, in.Call, c.NextTool)
			return &abi.WrapToolCallAnswer{Result: res}, err
		},
	}
}

// WithToolCallStream returns a middleware that calls fn with each tool's result while it arrives. The
// chunks that fn sends become the result; if fn sends none, the result is unchanged. The result of a
// tool that does not stream arrives at once.
//
//	native.WithToolCallStream(func(
//		ctx context.Context, _ abi.Call, result *native.Stream[abi.Result], send func(...abi.Chunk) error,
//	) error {
//		for chunk := range result.Chunks() {
//			chunk.Text = strings.ToUpper(chunk.Text)
//			if err := send(chunk); err != nil {
//				return err
//			}
//		}
//		return result.End()
//	})
func WithToolCallStream(
	fn func(ctx context.Context, call abi.Call, result *Stream[abi.Result], send func(...abi.Chunk) error) error,
) *Middleware {
	return &Middleware{
		WrapToolCall: func(ctx context.Context, c *Call, in *abi.WrapToolCallInput) (*abi.WrapToolCallAnswer, error) {
			return nil, fn(ctx, in.Call, c.StreamTool(ctx, abi.CallPatch{}),
				func(chunks ...abi.Chunk) error { return c.Send(ctx, chunks...) })
		},
	}
}

func paragraph(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
