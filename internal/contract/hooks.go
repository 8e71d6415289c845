package contract

import "github.com/agent-runner/agent-runner/abi"

// The hooks of version 1, in the order in which a run calls them.
const (
	HookDescribe                abi.Hook = "describe"
	HookConfigure               abi.Hook = "configure"
	HookBeforeAgent             abi.Hook = "before_agent"
	HookBeforeModelRewriteState abi.Hook = "before_model_rewrite_state"
	HookBeforeModel             abi.Hook = "before_model"
	HookWrapModel               abi.Hook = "wrap_model"
	HookOnChunk                 abi.Hook = "on_chunk"
	HookAfterModel              abi.Hook = "after_model"
	HookAfterModelRewriteState  abi.Hook = "after_model_rewrite_state"
	HookBeforeTool              abi.Hook = "before_tool"
	HookWrapToolCall            abi.Hook = "wrap_tool_call"
	HookGateTool                abi.Hook = abi.HookGateTool
	HookCallTool                abi.Hook = "call_tool"
	HookAfterTool               abi.Hook = "after_tool"
	HookToolMessages            abi.Hook = "tool_messages"
	HookAfterTools              abi.Hook = "after_tools"
	HookAfterAgent              abi.Hook = "after_agent"
	HookObserve                 abi.Hook = "observe"
	HookTranslateBefore         abi.Hook = "translate_before"
	HookTranslateAfter          abi.Hook = "translate_after"
)
