package eino

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
)

// execute is the type of a function that calls the wrapped endpoint with the arguments that the
// tool hooks chose.
type execute func(ctx context.Context, arguments string) (*abi.Result, error)

// call makes a tool call through the chain. If the arguments are malformed or the tool is not
// active, it runs neither the hooks nor the tool, and returns an error result for the model.
func (m *middleware) call(ctx context.Context, tc *adk.ToolContext, arguments string, do execute) (*abi.Result, error) {
	s, err := m.session(ctx)
	if err != nil {
		return nil, err
	}
	t, active := s.tool(tc.Name)
	call := abi.Call{ID: tc.CallID, Name: tc.Name, Arguments: arguments, Owner: t.Owner}
	s.Send(abi.Event{Type: abi.EventToolCall, Call: &call})
	outcome := chain.ToolOutcome{Call: call, Source: "host"}
	if call.Arguments, err = toolset.ParseArguments(arguments); err != nil {
		outcome.Result = toolset.BadArguments(tc.Name, arguments, err)
	} else if !active {
		outcome.Result = abi.ErrorResult("The tool " + tc.Name + " cannot be called now. Use one of the available tools.")
	} else if outcome, err = m.run(ctx, s, t, call, do); err != nil {
		return nil, err
	}
	s.Send(abi.Event{Type: abi.EventToolResult, Call: &outcome.Call, Result: outcome.Result, Source: outcome.Source})
	return outcome.Result, nil
}

// run makes a tool call through the hooks. If the tool was interrupted, or failed and no module
// replaced its error, run returns the tool's own error, which Eino recognizes.
func (m *middleware) run(
	ctx context.Context,
	s *session,
	t abi.Tool,
	call abi.Call,
	do execute,
) (outcome chain.ToolOutcome, err error) {
	var failed error // error of the tool itself
	var paused bool
	err = s.phase(ctx, "tool/"+call.ID, func(ctx context.Context, run *chain.Run) (err error) {
		outcome, err = run.CallTool(ctx, chain.ToolCall{Call: call, Tool: t, State: s.talk.current(),
			Run: func(ctx context.Context, call abi.Call, _ *abi.Resume, _ pipe.Sink) (*abi.Result, error) {
				res, err := do(ctx, call.Arguments)
				if failed = err; err != nil {
					if _, paused = compose.IsInterruptRerunError(err); paused {
						return nil, &abi.Interrupt{Reason: "the tool " + call.Name + " was interrupted"}
					}
				}
				return res, err
			}})
		return err
	})
	switch {
	case paused:
		return outcome, failed // Eino's own interrupt, which holds the tool's state
	case err == nil && failed != nil && outcome.Source == "tool" && outcome.Result.IsError:
		return outcome, failed // no module replaced the error
	}
	return outcome, err
}

// WrapInvokableToolCall returns an endpoint that calls endpoint with the tool hooks around each
// call.
func (m *middleware) WrapInvokableToolCall(
	_ context.Context,
	endpoint adk.InvokableToolCallEndpoint,
	tc *adk.ToolContext,
) (adk.InvokableToolCallEndpoint, error) {
	return func(ctx context.Context, arguments string, opts ...tool.Option) (string, error) {
		res, err := m.call(ctx, tc, arguments, func(ctx context.Context, arguments string) (*abi.Result, error) {
			text, err := endpoint(ctx, arguments, opts...)
			if err != nil {
				return nil, err
			}
			return abi.TextResult(text), nil
		})
		if err != nil {
			return "", err
		}
		return res.Content.String(), nil
	}, nil
}

// WrapStreamableToolCall is like WrapInvokableToolCall for a streaming tool. The hooks see the
// complete result, which the returned endpoint streams as one chunk.
func (m *middleware) WrapStreamableToolCall(
	_ context.Context,
	endpoint adk.StreamableToolCallEndpoint,
	tc *adk.ToolContext,
) (adk.StreamableToolCallEndpoint, error) {
	return func(ctx context.Context, arguments string, opts ...tool.Option) (*schema.StreamReader[string], error) {
		res, err := m.call(ctx, tc, arguments, func(ctx context.Context, arguments string) (*abi.Result, error) {
			reader, err := endpoint(ctx, arguments, opts...)
			if err != nil {
				return nil, err
			}
			pieces, err := all(reader)
			if err != nil {
				return nil, err
			}
			return abi.TextResult(strings.Join(pieces, "")), nil
		})
		if err != nil {
			return nil, err
		}
		return schema.StreamReaderFromArray([]string{res.Content.String()}), nil
	}, nil
}

// WrapEnhancedInvokableToolCall is like WrapInvokableToolCall for a tool whose result has parts.
func (m *middleware) WrapEnhancedInvokableToolCall(
	_ context.Context,
	endpoint adk.EnhancedInvokableToolCallEndpoint,
	tc *adk.ToolContext,
) (adk.EnhancedInvokableToolCallEndpoint, error) {
	return func(ctx context.Context, argument *schema.ToolArgument, opts ...tool.Option) (*schema.ToolResult, error) {
		var parts []schema.ToolOutputPart
		res, err := m.call(ctx, tc, argument.Text, func(ctx context.Context, arguments string) (*abi.Result, error) {
			result, err := endpoint(ctx, &schema.ToolArgument{Text: arguments}, opts...)
			if err != nil {
				return nil, err
			}
			parts = result.Parts
			return resultOf(parts)
		})
		if err != nil {
			return nil, err
		}
		return toolResult(res, parts)
	}, nil
}

// WrapEnhancedStreamableToolCall is like WrapStreamableToolCall for a tool that streams parts.
func (m *middleware) WrapEnhancedStreamableToolCall(
	_ context.Context,
	endpoint adk.EnhancedStreamableToolCallEndpoint,
	tc *adk.ToolContext,
) (adk.EnhancedStreamableToolCallEndpoint, error) {
	return func(
		ctx context.Context, argument *schema.ToolArgument, opts ...tool.Option,
	) (*schema.StreamReader[*schema.ToolResult], error) {
		var parts []schema.ToolOutputPart
		res, err := m.call(ctx, tc, argument.Text, func(ctx context.Context, arguments string) (*abi.Result, error) {
			reader, err := endpoint(ctx, &schema.ToolArgument{Text: arguments}, opts...)
			if err != nil {
				return nil, err
			}
			pieces, err := all(reader)
			if err != nil {
				return nil, err
			}
			for _, p := range pieces {
				parts = append(parts, p.Parts...)
			}
			return resultOf(parts)
		})
		if err != nil {
			return nil, err
		}
		result, err := toolResult(res, parts)
		if err != nil {
			return nil, err
		}
		return schema.StreamReaderFromArray([]*schema.ToolResult{result}), nil
	}, nil
}

// all reads a stream to its end, closes it and returns its pieces.
func all[T any](reader *schema.StreamReader[T]) ([]T, error) {
	defer reader.Close()
	var out []T
	for {
		piece, err := reader.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, piece)
	}
}

// resultOf converts the parts of an enhanced tool result to the form that modules receive.
func resultOf(parts []schema.ToolOutputPart) (*abi.Result, error) {
	out := make([]abi.Part, len(parts))
	for i := range parts {
		var err error
		if out[i], err = partFrom(parts[i]); err != nil {
			return nil, err
		}
	}
	return &abi.Result{Content: abi.Parts(out...)}, nil
}

// toolResult converts a result to an enhanced one. For a part that is unchanged from was, it uses
// the original part.
func toolResult(res *abi.Result, was []schema.ToolOutputPart) (*schema.ToolResult, error) {
	out := &schema.ToolResult{}
	for _, p := range res.Content.Parts() {
		part, err := partTo(p, was)
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts, part)
	}
	return out, nil
}

// A moduleTool is a tool that a module added. Eino only lists it, and the middleware runs it in the
// module.
type moduleTool struct{ info *schema.ToolInfo }

func newModuleTool(d abi.Tool) (tool.BaseTool, error) {
	info, err := toolInfo(d)
	return &moduleTool{info}, err
}

func toolInfo(d abi.Tool) (*schema.ToolInfo, error) {
	info := &schema.ToolInfo{Name: d.Name, Desc: d.Description}
	if len(d.Parameters) == 0 {
		return info, nil
	}
	var js jsonschema.Schema
	if err := json.Unmarshal(d.Parameters, &js); err != nil {
		return nil, err
	}
	info.ParamsOneOf = schema.NewParamsOneOfByJSONSchema(&js)
	return info, nil
}

// Info returns the tool's description.
func (t *moduleTool) Info(context.Context) (*schema.ToolInfo, error) { return t.info, nil }

// InvokableRun always fails. The middleware runs the tool in its module, and Eino never calls this
// method.
func (t *moduleTool) InvokableRun(context.Context, string, ...tool.Option) (string, error) {
	return "", errors.New(
		"agent-runner: the tool " + t.info.Name + " belongs to a module and is called through the middleware that added it",
	)
}
