package middleware

import "github.com/agent-runner/agent-runner/abi"

// A Middleware is a value with at least one of the hook methods of this package's
// interfaces, or a value that [Combine], [Build] or a constructor such as
// [WithInstruction] returned.
type Middleware any

// The hooks, in the order in which a run calls them. A middleware implements one or more of them. Each may return an
// error, which makes the hook fail.

// The first paragraph of each comment is in the table of hooks in the README.

// ConfigureHook is called after the configuration was decoded into the middleware's
// fields. It can check them and compute values from them; an error rejects the
// configuration.
//
// Every run starts with the memory that Configure leaves.
type ConfigureHook interface {
	Configure(ctx *Context) error
}

// BeforeAgentHook is called once per run, before the first step. It can change Instruction, Tools,
// ReturnDirectly and Messages, and call Respond.
type BeforeAgentHook interface {
	BeforeAgent(ctx *Context, run *AgentStart) error
}

// BeforeModelRewriteStateHook is called in each step before the model. It can change
// Messages and which Tools are active. Its changes persist in the run's state.
type BeforeModelRewriteStateHook interface {
	BeforeModelRewriteState(ctx *Context, state *State) error
}

// BeforeModelHook is called before each model call. It can change Messages, Tools, Model and Params
// for this call only, and call Respond.
type BeforeModelHook interface {
	BeforeModel(ctx *Context, call *ModelStart) error
}

// WrapModelHook is called around each model call, which next continues. It can change the
// request and returns a response.
//
// If the hook returns nil and no error, the answer consists of the chunks that it sent
// with [Context.Send]. If it sent none, the answer is the last reply of next. If it did
// not call next either, the call continues without the hook. A hook that reads the answer
// while it streams calls next.Stream.
type WrapModelHook interface {
	WrapModel(ctx *Context, req *Request, next NextModel) (*abi.Response, error)
}

// OnChunkHook is called with all available chunks of a streamed answer. It can change
// Items.
type OnChunkHook interface {
	OnChunk(ctx *Context, chunks *Chunks) error
}

// AfterModelHook is called after each model call, including failed ones. It can change the
// response or the error, and call Again.
type AfterModelHook interface {
	AfterModel(ctx *Context, call *ModelEnd) error
}

// AfterModelRewriteStateHook is called in each step after the model, whose answer is the
// last message. It can change Messages. Its changes persist in the run's state.
type AfterModelRewriteStateHook interface {
	AfterModelRewriteState(ctx *Context, state *State) error
}

// BeforeToolHook is called before each tool call. It can change Arguments, and call Respond.
type BeforeToolHook interface {
	BeforeTool(ctx *Context, call *ToolStart) error
}

// WrapToolCallHook is called around each tool call, which next continues. It can change
// Arguments and returns a result.
//
// If the hook returns nil and no error, the result consists of the chunks that it sent
// with [Context.Send]. If it sent none, the result is the last reply of next. If it did
// not call next either, the call continues without the hook.
type WrapToolCallHook interface {
	WrapToolCall(ctx *Context, call *Call, next NextTool) (*abi.Result, error)
}

// GateToolHook decides about each tool call, with the exact arguments that the tool
// receives. It returns [Allow], [Deny], [Ask] or [StopRun], and changes nothing. An error
// denies the call.
type GateToolHook interface {
	GateTool(ctx *Context, call *Call) (Decision, error)
}

// CallToolHook runs a tool that this middleware added, and returns the result. [WithTools]
// makes each tool from one function.
//
// If the hook returns nil and no error, the result consists of the chunks that it sent
// with [Context.Send].
type CallToolHook interface {
	CallTool(ctx *Context, call *Call) (*abi.Result, error)
}

// AfterToolHook is called after each tool call, including failed ones. It can change the
// result or the error, and call Again.
type AfterToolHook interface {
	AfterTool(ctx *Context, call *ToolEnd) error
}

// ToolMessagesHook is called when a tool's result is recorded. It can replace the message
// that records it.
type ToolMessagesHook interface {
	ToolMessages(ctx *Context, record *ToolRecord) error
}

// AfterToolsHook is called after each round of tool calls. It can change Messages. Its
// changes persist in the run's state.
type AfterToolsHook interface {
	AfterTools(ctx *Context, round *ToolsEnd) error
}

// AfterAgentHook is called once at the end of a run, however it ended. It can change Final.
type AfterAgentHook interface {
	AfterAgent(ctx *Context, run *AgentEnd) error
}

// ObserveHook receives the events of a run in their final form. It changes nothing.
type ObserveHook interface {
	Observe(ctx *Context, events []abi.Event) error
}

// TranslateBeforeHook is called with each event for a client before it is translated to
// the client's protocol. It can change or drop the event.
type TranslateBeforeHook interface {
	TranslateBefore(ctx *Context, t *Translation) error
}

// TranslateAfterHook is called with each event for a client after it was translated to
// the client's protocol. It can change or drop the event.
type TranslateAfterHook interface {
	TranslateAfter(ctx *Context, t *Translation) error
}
