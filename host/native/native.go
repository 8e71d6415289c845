// Package native provides middlewares in Go. They run in the host's process, with its rights;
// untrusted middlewares are modules. The constructors cover the usual cases: set the functions of
// a [Middleware] for anything else.
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
	return WithInstructionFunc(func(_ context.Context, instruction string) (string, error) {
		return paragraph(instruction, text), nil
	})
}

// WithInstructionFunc returns a middleware that replaces the agent's instruction with the result of
// rewrite.
func WithInstructionFunc(rewrite func(ctx context.Context, instruction string) (string, error)) *Middleware {
	return &Middleware{
		BeforeAgent: func(ctx context.Context, _ *Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			instruction, err := rewrite(ctx, in.Instruction)
			return &abi.BeforeAgentAnswer{Instruction: &instruction}, err
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

// WithToolsFunc returns a middleware that selects the agent's tools: the model sees those that
// choose returns. choose cannot add tools; see [WithTools].
func WithToolsFunc(choose func(ctx context.Context, tools []abi.Tool) ([]abi.Tool, error)) *Middleware {
	return &Middleware{
		BeforeAgent: func(ctx context.Context, _ *Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
			tools, err := choose(ctx, slices.Clone(in.Tools))
			return &abi.BeforeAgentAnswer{Tools: abi.ToolsPatch{Whole: true, Replace: tools}}, err
		},
	}

}

// WithBeforeModelRewriteState returns a middleware that replaces the run's messages with the result
// of rewrite before each model call.
func WithBeforeModelRewriteState(
	rewrite func(ctx context.Context, messages []abi.Message) ([]abi.Message, error),
) *Middleware {
	return &Middleware{
		BeforeModelRewriteState: func(
			ctx context.Context, c *Call, _ *abi.BeforeModelRewriteStateInput,
		) (*abi.BeforeModelRewriteStateAnswer, error) {
			messages, err := rewrite(ctx, c.List(abi.ListState).All())
			return &abi.BeforeModelRewriteStateAnswer{Messages: abi.ListPatch{Whole: true, Replace: messages}}, err
		},
	}
}

// WithAfterModelRewriteState returns a middleware that replaces the run's messages with the
// result of rewrite after each model call. The last message that rewrite receives is the response.
func WithAfterModelRewriteState(
	rewrite func(ctx context.Context, messages []abi.Message) ([]abi.Message, error),
) *Middleware {
	return &Middleware{
		AfterModelRewriteState: func(
			ctx context.Context, c *Call, _ *abi.AfterModelRewriteStateInput,
		) (*abi.AfterModelRewriteStateAnswer, error) {
			messages, err := rewrite(ctx, c.List(abi.ListState).All())
			return &abi.AfterModelRewriteStateAnswer{Messages: abi.ListPatch{Whole: true, Replace: messages}}, err
		},
	}
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
