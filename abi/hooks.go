package abi

//go:generate go run ../internal/hookgen ..

// A Hook is the name of an exported function that the host calls at one point of the
// agent's loop, such as on_chunk. The README lists the hooks.
type Hook string

// HookGateTool is the hook of a [Pending] that asks for the approval of a tool call.
const HookGateTool Hook = "gate_tool"

// The inputs and answers of the hooks, in the order in which a run calls them. The fields of an answer are optional
// unless a comment says otherwise: an absent field leaves the value unchanged.

// BeforeAgentInput is the input of before_agent.
type BeforeAgentInput struct {
	Common
	Instruction    string    `json:"instruction"`
	Tools          []Tool    `json:"tools"`
	ReturnDirectly []string  `json:"return_directly"`
	Messages       List      `json:"messages"`
	Model          string    `json:"model"`
	Params         Params    `json:"params,omitempty"`
	Limits         RunLimits `json:"limits"`
}

// RunLimits holds the limits of a run.
type RunLimits struct {
	MaxSteps   int            `json:"max_steps"`
	ModelCalls int            `json:"model_calls,omitempty"` // maximum number of calls that reach the model; 0 means unlimited
	ToolCalls  int            `json:"tool_calls,omitempty"`  // 0 means unlimited
	Tools      map[string]int `json:"tools,omitempty"`       // calls by tool
}

// BeforeAgentAnswer is the answer of before_agent.
type BeforeAgentAnswer struct {
	Control
	Instruction    *string    `json:"instruction,omitempty"`
	Tools          ToolsPatch `json:"tools,omitzero"`
	ReturnDirectly []string   `json:"return_directly,omitzero"`
	Messages       ListPatch  `json:"messages,omitzero"`
	// Respond is an assistant message that ends the run without a model call.
	Respond *Message `json:"respond,omitempty"`
	// Model and Params change the model and the parameters of every model call of the agent; see [RequestPatch]. They
	// need the grant set:model.
	Model  string `json:"model,omitempty"`
	Params Params `json:"params,omitempty"`
	// Limits changes limits of the run. It needs the grant set:limits.
	Limits *LimitsPatch `json:"limits,omitempty"`
}

// LimitsPatch is a change of limits of a run. Limits that are absent, or 0, stay unchanged. Only
// modules of the outer and the inner ring may raise a limit.
type LimitsPatch struct {
	MaxSteps   int            `json:"max_steps,omitempty"`
	ModelCalls int            `json:"model_calls,omitempty"`
	ToolCalls  int            `json:"tool_calls,omitempty"`
	Tools      map[string]int `json:"tools,omitempty"` // calls by tool; tools that are absent stay unchanged
}

// BeforeModelRewriteStateInput is the input of before_model_rewrite_state.
type BeforeModelRewriteStateInput struct {
	Common
	Messages List        `json:"messages"`
	Tools    []StateTool `json:"tools"`
	Model    string      `json:"model"`
	Params   Params      `json:"params,omitempty"`
}

// BeforeModelRewriteStateAnswer is the answer of before_model_rewrite_state.
type BeforeModelRewriteStateAnswer struct {
	Control
	Messages ListPatch `json:"messages,omitzero"`
	// Active names the tools that the model is offered from now on.
	Active []string `json:"active,omitzero"`
}

// BeforeModelInput is the input of before_model.
type BeforeModelInput struct {
	Common
	Request Request `json:"request"`
}

// BeforeModelAnswer is the answer of before_model.
type BeforeModelAnswer struct {
	Control
	Request  RequestPatch `json:"request,omitzero"`
	Response *Response    `json:"response,omitempty"` // used instead of calling the model
}

// WrapModelInput is the input of wrap_model. The hook passes a [RequestPatch] to next,
// which replies with the response.
type WrapModelInput struct {
	Common
	Request Request `json:"request"`
}

// WrapModelAnswer is the answer of wrap_model.
type WrapModelAnswer struct {
	Control
	Response *Response `json:"response,omitempty"`
}

// OnChunkInput is the input of on_chunk: all chunks that are available.
type OnChunkInput struct {
	Common
	Chunks []Chunk `json:"chunks"`
	// Stream identifies the stream that the chunks belong to. It is unique within the run
	// and differs for each attempt of a call, so that a module does not join chunks of a
	// failed attempt with those of the next.
	Stream int64 `json:"stream,omitempty"`
	Final  bool  `json:"final"` // last call for this message; set once per message
}

// OnChunkAnswer is the answer of on_chunk.
type OnChunkAnswer struct {
	Control
	Chunks []Chunk `json:"chunks,omitzero"` // replaces the chunks; empty drops them
}

// AfterModelInput is the input of after_model. Either Response or Error is set.
type AfterModelInput struct {
	Common
	Request  Request   `json:"request"`
	Response *Response `json:"response,omitempty"`
	Error    *Error    `json:"error,omitempty"`
	Source   string    `json:"source"` // "model", or the entry that answered
}

// AfterModelAnswer is the answer of after_model.
type AfterModelAnswer struct {
	Control
	Response *Response   `json:"response,omitempty"`
	Error    *Error      `json:"error,omitempty"`
	Again    *ModelAgain `json:"again,omitempty"`
}

// ModelAgain requests another model call, optionally with a patched request.
type ModelAgain struct {
	Request RequestPatch `json:"request,omitzero"`
	Reason  string       `json:"reason,omitempty"`
}

// AfterModelRewriteStateInput is the input of after_model_rewrite_state.
type AfterModelRewriteStateInput struct {
	Common
	Messages List        `json:"messages"` // the response is the last one
	Tools    []StateTool `json:"tools"`
}

// AfterModelRewriteStateAnswer is the answer of after_model_rewrite_state.
type AfterModelRewriteStateAnswer struct {
	Control
	Messages ListPatch `json:"messages,omitzero"`
}

// BeforeToolInput is the input of before_tool.
type BeforeToolInput struct {
	Common
	Call   Call `json:"call"`
	Tool   Tool `json:"tool"`
	Stream bool `json:"stream,omitempty"`
}

// BeforeToolAnswer is the answer of before_tool.
type BeforeToolAnswer struct {
	Control
	Arguments *string `json:"arguments,omitempty"`
	Result    *Result `json:"result,omitempty"` // used instead of calling the tool
}

// WrapToolCallInput is the input of wrap_tool_call. The hook passes a [CallPatch] to
// next, which replies with the result.
type WrapToolCallInput struct {
	Common
	Call   Call `json:"call"`
	Tool   Tool `json:"tool"`
	Stream bool `json:"stream,omitempty"`
}

// CallPatch changes the arguments of a tool call.
type CallPatch struct {
	Arguments *string `json:"arguments,omitempty"`
}

// WrapToolCallAnswer is the answer of wrap_tool_call.
type WrapToolCallAnswer struct {
	Control
	Result *Result `json:"result,omitempty"`
}

// The values of GateToolAnswer.Decision, from the most lenient to the strictest.
const (
	DecideAllow = "allow"
	DecideAsk   = "ask"
	DecideDeny  = "deny"
	DecideStop  = "stop"
)

// GateToolInput is the input of gate_tool. Call has the exact arguments.
type GateToolInput struct {
	Common
	Call Call `json:"call"`
	Tool Tool `json:"tool"`
}

// GateToolAnswer is the answer of gate_tool. Decision is required.
type GateToolAnswer struct {
	Control
	Decision string `json:"decision,omitempty"`
	Message  string `json:"message,omitempty"` // the reason; the model reads it
	Payload  JSON   `json:"payload,omitempty"` // shown to the person who decides
}

// AfterToolInput is the input of after_tool. Either Result or Error is set.
type AfterToolInput struct {
	Common
	Call   Call    `json:"call"`
	Tool   Tool    `json:"tool"`
	Result *Result `json:"result,omitempty"`
	Error  *Error  `json:"error,omitempty"`
	Source string  `json:"source"` // "tool", "host", or the entry that answered or denied
}

// AfterToolAnswer is the answer of after_tool.
type AfterToolAnswer struct {
	Control
	Result *Result    `json:"result,omitempty"`
	Error  *Error     `json:"error,omitempty"`
	Again  *ToolAgain `json:"again,omitempty"`
}

// ToolAgain requests another call of the tool, optionally with other arguments.
type ToolAgain struct {
	Arguments *string `json:"arguments,omitempty"`
	Reason    string  `json:"reason,omitempty"`
}

// ToolMessagesInput is the input of tool_messages.
type ToolMessagesInput struct {
	Common
	Call    Call    `json:"call"`
	Tool    Tool    `json:"tool"`
	Result  Result  `json:"result"`
	Default Message `json:"default"` // the message that is recorded by default
}

// ToolMessagesAnswer is the answer of tool_messages. Exactly one of the messages must
// answer the call.
type ToolMessagesAnswer struct {
	Messages []Message `json:"messages,omitempty"`
}

// AfterToolsInput is the input of after_tools.
type AfterToolsInput struct {
	Common
	Messages List   `json:"messages"`
	Calls    []Call `json:"calls"`
}

// AfterToolsAnswer is the answer of after_tools.
type AfterToolsAnswer struct {
	Control
	Messages ListPatch `json:"messages,omitzero"`
}

// AfterAgentInput is the input of after_agent.
type AfterAgentInput struct {
	Common
	Messages     List     `json:"messages"`
	NewFrom      int      `json:"new_from"` // index of this run's first message
	Final        *Message `json:"final,omitempty"`
	Error        *Error   `json:"error,omitempty"`
	FinishReason string   `json:"finish_reason"`
	Usage        Usage    `json:"usage"`
}

// AfterAgentAnswer is the answer of after_agent.
type AfterAgentAnswer struct {
	Final *Message `json:"final,omitempty"`
}

// ObserveInput is the input of observe.
type ObserveInput struct {
	Common
	Events []Event `json:"events"`
}

// ObserveAnswer is the answer of observe. It has no fields.
type ObserveAnswer struct{}

// CallToolInput is the input of call_tool.
type CallToolInput struct {
	Common
	Call Call `json:"call"`
}

// CallToolAnswer is the answer of call_tool.
type CallToolAnswer struct {
	Control
	Result *Result `json:"result,omitempty"`
}

// TranslateInput is the input of translate_before and translate_after.
type TranslateInput struct {
	Common
	// Event is the [Event] in translate_before, and its translation to the client's
	// protocol in translate_after.
	Event    JSON   `json:"event"`
	Protocol string `json:"protocol"`
}

// TranslateAnswer is the answer of translate_before and translate_after.
type TranslateAnswer struct {
	Event JSON `json:"event,omitempty"` // replaces the event
	Drop  bool `json:"drop,omitempty"`  // suppresses the event
}
