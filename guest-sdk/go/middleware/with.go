package middleware

import "github.com/agent-runner/agent-runner/abi"

// The constructors below make middlewares from functions, for cases that need no type.
// They can be registered or combined with others like any middleware.

type (
	beforeAgentFunc             func(*Context, *AgentStart) error
	beforeModelRewriteStateFunc func(*Context, *State) error
	beforeModelFunc             func(*Context, *ModelStart) error
	wrapModelFunc               func(*Context, *Request, NextModel) (*abi.Response, error)
	onChunkFunc                 func(*Context, *Chunks) error
	afterModelFunc              func(*Context, *ModelEnd) error
	afterModelRewriteStateFunc  func(*Context, *State) error
	beforeToolFunc              func(*Context, *ToolStart) error
	wrapToolCallFunc            func(*Context, *Call, NextTool) (*abi.Result, error)
	gateToolFunc                func(*Context, *Call) (Decision, error)
	afterToolFunc               func(*Context, *ToolEnd) error
	afterToolsFunc              func(*Context, *ToolsEnd) error
	afterAgentFunc              func(*Context, *AgentEnd) error
	observeFunc                 func(*Context, []abi.Event) error
)

func (f beforeAgentFunc) BeforeAgent(ctx *Context, run *AgentStart) error { return f(ctx, run) }
func (f beforeModelRewriteStateFunc) BeforeModelRewriteState(ctx *Context, state *State) error {
	return f(ctx, state)
}
func (f beforeModelFunc) BeforeModel(ctx *Context, call *ModelStart) error { return f(ctx, call) }
func (f wrapModelFunc) WrapModel(ctx *Context, req *Request, next NextModel) (*abi.Response, error) {
	return f(ctx, req, next)
}
func (f onChunkFunc) OnChunk(ctx *Context, chunks *Chunks) error       { return f(ctx, chunks) }
func (f afterModelFunc) AfterModel(ctx *Context, call *ModelEnd) error { return f(ctx, call) }
func (f afterModelRewriteStateFunc) AfterModelRewriteState(ctx *Context, state *State) error {
	return f(ctx, state)
}
func (f beforeToolFunc) BeforeTool(ctx *Context, call *ToolStart) error { return f(ctx, call) }
func (f wrapToolCallFunc) WrapToolCall(ctx *Context, call *Call, next NextTool) (*abi.Result, error) {
	return f(ctx, call, next)
}
func (f gateToolFunc) GateTool(ctx *Context, call *Call) (Decision, error) { return f(ctx, call) }
func (f afterToolFunc) AfterTool(ctx *Context, call *ToolEnd) error        { return f(ctx, call) }
func (f afterToolsFunc) AfterTools(ctx *Context, round *ToolsEnd) error    { return f(ctx, round) }
func (f afterAgentFunc) AfterAgent(ctx *Context, run *AgentEnd) error      { return f(ctx, run) }
func (f observeFunc) Observe(ctx *Context, events []abi.Event) error       { return f(ctx, events) }

// WithInstruction returns a middleware that appends text to the agent's instruction with
// [AgentStart.AddInstruction].
func WithInstruction(text string) Middleware {
	return WithBeforeAgent(func(_ *Context, run *AgentStart) error {
		run.AddInstruction(text)
		return nil
	})
}

// WithInstructionFunc returns a middleware that sets the instruction to the result of fn. An error of fn makes the
// hook fail.
func WithInstructionFunc(fn func(ctx *Context, instruction string) (string, error)) Middleware {
	return WithBeforeAgent(func(ctx *Context, run *AgentStart) (err error) {
		run.Instruction, err = fn(ctx, run.Instruction)
		return err
	})
}

// WithToolsFunc returns a middleware that sets the agent's tools, and those whose result is the run's answer, to the
// results of fn. fn can remove tools and change their descriptions. This module's CallTool must run the tools that fn
// adds. An error of fn makes the hook fail.
func WithToolsFunc(
	fn func(ctx *Context, tools []abi.Tool, returnDirectly []string) ([]abi.Tool, []string, error),
) Middleware {
	return WithBeforeAgent(func(ctx *Context, run *AgentStart) (err error) {
		run.Tools, run.ReturnDirectly, err = fn(ctx, run.Tools, run.ReturnDirectly)
		return err
	})
}

// WithBeforeAgent returns a middleware with fn as its [BeforeAgentHook].
func WithBeforeAgent(fn func(ctx *Context, run *AgentStart) error) Middleware {
	return beforeAgentFunc(fn)
}

// WithBeforeModelRewriteState returns a middleware with fn as its
// [BeforeModelRewriteStateHook].
func WithBeforeModelRewriteState(fn func(ctx *Context, state *State) error) Middleware {
	return beforeModelRewriteStateFunc(fn)
}

// WithBeforeModel returns a middleware with fn as its [BeforeModelHook].
func WithBeforeModel(fn func(ctx *Context, call *ModelStart) error) Middleware {
	return beforeModelFunc(fn)
}

// WithModelWrapper returns a middleware with fn as its [WrapModelHook].
func WithModelWrapper(fn func(ctx *Context, req *Request, next NextModel) (*abi.Response, error)) Middleware {
	return wrapModelFunc(fn)
}

// WithOnChunk returns a middleware with fn as its [OnChunkHook].
func WithOnChunk(fn func(ctx *Context, chunks *Chunks) error) Middleware { return onChunkFunc(fn) }

// WithAfterModel returns a middleware with fn as its [AfterModelHook].
func WithAfterModel(fn func(ctx *Context, call *ModelEnd) error) Middleware {
	return afterModelFunc(fn)
}

// WithAfterModelRewriteState returns a middleware with fn as its
// [AfterModelRewriteStateHook].
func WithAfterModelRewriteState(fn func(ctx *Context, state *State) error) Middleware {
	return afterModelRewriteStateFunc(fn)
}

// WithBeforeTool returns a middleware with fn as its [BeforeToolHook].
func WithBeforeTool(fn func(ctx *Context, call *ToolStart) error) Middleware {
	return beforeToolFunc(fn)
}

// WithToolCallWrapper returns a middleware with fn as its [WrapToolCallHook].
func WithToolCallWrapper(fn func(ctx *Context, call *Call, next NextTool) (*abi.Result, error)) Middleware {
	return wrapToolCallFunc(fn)
}

// WithGate returns a middleware with fn as its [GateToolHook].
func WithGate(fn func(ctx *Context, call *Call) (Decision, error)) Middleware {
	return gateToolFunc(fn)
}

// WithAfterTool returns a middleware with fn as its [AfterToolHook].
func WithAfterTool(fn func(ctx *Context, call *ToolEnd) error) Middleware { return afterToolFunc(fn) }

// WithAfterTools returns a middleware with fn as its [AfterToolsHook].
func WithAfterTools(fn func(ctx *Context, round *ToolsEnd) error) Middleware {
	return afterToolsFunc(fn)
}

// WithAfterAgent returns a middleware with fn as its [AfterAgentHook].
func WithAfterAgent(fn func(ctx *Context, run *AgentEnd) error) Middleware { return afterAgentFunc(fn) }

// WithObserver returns a middleware with fn as its [ObserveHook].
func WithObserver(fn func(ctx *Context, events []abi.Event) error) Middleware { return observeFunc(fn) }

// An AgentMiddleware is a middleware in Eino's older style: a struct with its
// contributions. Register it before middlewares that append to the instruction. All
// fields are optional.
type AgentMiddleware struct {
	// AdditionalInstruction is appended to the instruction after an empty line.
	AdditionalInstruction string
	AdditionalTools       []Tool
	BeforeChatModel       func(ctx *Context, state *State) error
	AfterChatModel        func(ctx *Context, state *State) error
	WrapToolCall          func(ctx *Context, call *Call, next NextTool) (*abi.Result, error)
}

func (a AgentMiddleware) middlewares() []Middleware {
	var out []Middleware
	if text := a.AdditionalInstruction; text != "" {
		out = append(out, WithBeforeAgent(func(_ *Context, run *AgentStart) error {
			if run.Instruction != "" {
				run.Instruction += "\n\n"
			}
			run.Instruction += text
			return nil
		}))
	}
	if len(a.AdditionalTools) > 0 {
		out = append(out, WithTools(a.AdditionalTools...))
	}
	if a.BeforeChatModel != nil {
		out = append(out, WithBeforeModelRewriteState(a.BeforeChatModel))
	}
	if a.AfterChatModel != nil {
		out = append(out, WithAfterModelRewriteState(a.AfterChatModel))
	}
	if a.WrapToolCall != nil {
		out = append(out, WithToolCallWrapper(a.WrapToolCall))
	}
	return out
}
