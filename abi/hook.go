package abi

// A Hook is the name of an exported function that the host calls at one point of the
// agent's loop.
type Hook string

// The hooks of version 1, in the order in which a run calls them.
const (
	HookDescribe                Hook = "describe"
	HookConfigure               Hook = "configure"
	HookBeforeAgent             Hook = "before_agent"
	HookBeforeModelRewriteState Hook = "before_model_rewrite_state"
	HookBeforeModel             Hook = "before_model"
	HookWrapModel               Hook = "wrap_model"
	HookOnChunk                 Hook = "on_chunk"
	HookAfterModel              Hook = "after_model"
	HookAfterModelRewriteState  Hook = "after_model_rewrite_state"
	HookBeforeTool              Hook = "before_tool"
	HookWrapToolCall            Hook = "wrap_tool_call"
	HookGateTool                Hook = "gate_tool"
	HookCallTool                Hook = "call_tool"
	HookAfterTool               Hook = "after_tool"
	HookToolMessages            Hook = "tool_messages"
	HookAfterTools              Hook = "after_tools"
	HookAfterAgent              Hook = "after_agent"
	HookObserve                 Hook = "observe"
	HookTranslateBefore         Hook = "translate_before"
	HookTranslateAfter          Hook = "translate_after"
)
