package middleware

import "github.com/agent-runner/agent-runner/abi"

// A Middleware is a value with at least one of the hook methods of this
// package's interfaces, or one made by [Combine], [Build] or a constructor
// such as [WithInstruction].
type Middleware any

// The hooks, in the order in which a run meets them. A middleware implements
// those it wants; each may return an error, which fails the hook.

// ConfigureHook is called once an instance's configuration stands in the
// fields of the middleware: check it, and compute what follows from it. What
// it leaves in memory is there at the begin of every run.
type ConfigureHook interface {
	Configure(ctx *Context) error
}

// BeforeAgentHook is called once a run, before its first step.
type BeforeAgentHook interface {
	BeforeAgent(ctx *Context, run *AgentStart) error
}

// BeforeModelRewriteStateHook is called in each step before the model. What it
// changes is kept in the run's state.
type BeforeModelRewriteStateHook interface {
	BeforeModelRewriteState(ctx *Context, state *State) error
}

// BeforeModelHook is called before each model call. What it changes is for
// this call only.
type BeforeModelHook interface {
	BeforeModel(ctx *Context, call *ModelStart) error
}

// WrapModelHook is called around each model call: next goes on with it. To
// return nothing and no error means the reply of the last next, or to go on
// if there was none; or, if something was sent with [Context.Send], that. A
// wrapper that wants to read the answer as it comes calls next.Stream.
type WrapModelHook interface {
	WrapModel(ctx *Context, req *Request, next NextModel) (*abi.Response, error)
}

// OnChunkHook is called with all pieces of a streamed answer that wait.
type OnChunkHook interface {
	OnChunk(ctx *Context, chunks *Chunks) error
}

// AfterModelHook is called after each model call, also after a failed one.
type AfterModelHook interface {
	AfterModel(ctx *Context, call *ModelEnd) error
}

// AfterModelRewriteStateHook is called in each step after the model, its
// answer being the last message. What it changes is kept in the run's state.
type AfterModelRewriteStateHook interface {
	AfterModelRewriteState(ctx *Context, state *State) error
}

// BeforeToolHook is called before each tool call.
type BeforeToolHook interface {
	BeforeTool(ctx *Context, call *ToolStart) error
}

// WrapToolCallHook is called around each tool call: next goes on with it. To
// return nothing and no error means the reply of the last next, or to go on
// if there was none; or, if something was sent with [Context.Send], that.
type WrapToolCallHook interface {
	WrapToolCall(ctx *Context, call *Call, next NextTool) (*abi.Result, error)
}

// GateToolHook decides on each tool call with the exact arguments that the
// tool would get. It cannot change them. An error denies.
type GateToolHook interface {
	GateTool(ctx *Context, call *Call) (Decision, error)
}

// CallToolHook runs a tool that this middleware added. See [WithTools] for
// tools with a function each. What was sent with [Context.Send] is the result
// if it returns nil.
type CallToolHook interface {
	CallTool(ctx *Context, call *Call) (*abi.Result, error)
}

// AfterToolHook is called after each tool call, also after a failed one.
type AfterToolHook interface {
	AfterTool(ctx *Context, call *ToolEnd) error
}

// ToolMessagesHook may say which messages record a tool's result.
type ToolMessagesHook interface {
	ToolMessages(ctx *Context, record *ToolRecord) error
}

// AfterToolsHook is called after each round of tool calls. What it changes is
// kept in the run's state.
type AfterToolsHook interface {
	AfterTools(ctx *Context, round *ToolsEnd) error
}

// AfterAgentHook is called once at the real end of a run, however it ended.
type AfterAgentHook interface {
	AfterAgent(ctx *Context, run *AgentEnd) error
}

// ObserveHook sees the events of a run in their final form and changes nothing.
type ObserveHook interface {
	Observe(ctx *Context, events []abi.Event) error
}

// TranslateBeforeHook sees each event on its way to a client, before it is put
// into the client's protocol.
type TranslateBeforeHook interface {
	TranslateBefore(ctx *Context, t *Translation) error
}

// TranslateAfterHook sees each event on its way to a client, in the client's
// protocol.
type TranslateAfterHook interface {
	TranslateAfter(ctx *Context, t *Translation) error
}
