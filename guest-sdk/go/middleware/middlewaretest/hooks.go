package middlewaretest

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Host has one method for each hook. The method fills in the run and the entry of the
// input. If a list in the input has items, the hook receives these, otherwise the run's
// messages. Changes to the run's messages are applied.

// BeforeAgent calls the hook before_agent.
func (h *Host) BeforeAgent(in abi.BeforeAgentInput) (abi.BeforeAgentAnswer, error) {
	h.show(&in.Messages, abi.ListState)
	answer, err := call[abi.BeforeAgentAnswer](h, contract.HookBeforeAgent, &in)
	if err != nil || answer.Stop != nil || answer.Interrupt != nil {
		return answer, err
	}
	return answer, h.keep(answer.Messages)
}

// BeforeModelRewriteState calls the hook before_model_rewrite_state.
func (h *Host) BeforeModelRewriteState(in abi.BeforeModelRewriteStateInput) (abi.BeforeModelRewriteStateAnswer, error) {
	h.show(&in.Messages, abi.ListState)
	answer, err := call[abi.BeforeModelRewriteStateAnswer](h, contract.HookBeforeModelRewriteState, &in)
	if err != nil || answer.Stop != nil || answer.Interrupt != nil {
		return answer, err
	}
	return answer, h.keep(answer.Messages)
}

// BeforeModel calls the hook before_model.
func (h *Host) BeforeModel(in abi.BeforeModelInput) (abi.BeforeModelAnswer, error) {
	h.show(&in.Request.Messages, abi.ListRequest)
	return call[abi.BeforeModelAnswer](h, contract.HookBeforeModel, &in)
}

// WrapModel calls the hook wrap_model. The hook's next calls Host.Model.
func (h *Host) WrapModel(in abi.WrapModelInput) (abi.WrapModelAnswer, error) {
	h.show(&in.Request.Messages, abi.ListRequest)
	h.request = &in.Request
	defer func() { h.request = nil }()
	return call[abi.WrapModelAnswer](h, contract.HookWrapModel, &in)
}

// OnChunk calls the hook on_chunk.
func (h *Host) OnChunk(in abi.OnChunkInput) (abi.OnChunkAnswer, error) {
	return call[abi.OnChunkAnswer](h, contract.HookOnChunk, &in)
}

// AfterModel calls the hook after_model.
func (h *Host) AfterModel(in abi.AfterModelInput) (abi.AfterModelAnswer, error) {
	h.show(&in.Request.Messages, abi.ListRequest)
	return call[abi.AfterModelAnswer](h, contract.HookAfterModel, &in)
}

// AfterModelRewriteState calls the hook after_model_rewrite_state.
func (h *Host) AfterModelRewriteState(in abi.AfterModelRewriteStateInput) (abi.AfterModelRewriteStateAnswer, error) {
	h.show(&in.Messages, abi.ListState)
	answer, err := call[abi.AfterModelRewriteStateAnswer](h, contract.HookAfterModelRewriteState, &in)
	if err != nil || answer.Stop != nil || answer.Interrupt != nil {
		return answer, err
	}
	return answer, h.keep(answer.Messages)
}

// BeforeTool calls the hook before_tool.
func (h *Host) BeforeTool(in abi.BeforeToolInput) (abi.BeforeToolAnswer, error) {
	return call[abi.BeforeToolAnswer](h, contract.HookBeforeTool, &in)
}

// WrapToolCall calls the hook wrap_tool_call. The hook's next calls Host.Tool.
func (h *Host) WrapToolCall(in abi.WrapToolCallInput) (abi.WrapToolCallAnswer, error) {
	h.call = &in.Call
	defer func() { h.call = nil }()
	return call[abi.WrapToolCallAnswer](h, contract.HookWrapToolCall, &in)
}

// GateTool calls the hook gate_tool.
func (h *Host) GateTool(in abi.GateToolInput) (abi.GateToolAnswer, error) {
	return call[abi.GateToolAnswer](h, contract.HookGateTool, &in)
}

// CallTool calls the hook call_tool.
func (h *Host) CallTool(in abi.CallToolInput) (abi.CallToolAnswer, error) {
	return call[abi.CallToolAnswer](h, contract.HookCallTool, &in)
}

// AfterTool calls the hook after_tool.
func (h *Host) AfterTool(in abi.AfterToolInput) (abi.AfterToolAnswer, error) {
	return call[abi.AfterToolAnswer](h, contract.HookAfterTool, &in)
}

// ToolMessages calls the hook tool_messages.
func (h *Host) ToolMessages(in abi.ToolMessagesInput) (abi.ToolMessagesAnswer, error) {
	return call[abi.ToolMessagesAnswer](h, contract.HookToolMessages, &in)
}

// AfterTools calls the hook after_tools.
func (h *Host) AfterTools(in abi.AfterToolsInput) (abi.AfterToolsAnswer, error) {
	h.show(&in.Messages, abi.ListState)
	answer, err := call[abi.AfterToolsAnswer](h, contract.HookAfterTools, &in)
	if err != nil || answer.Stop != nil || answer.Interrupt != nil {
		return answer, err
	}
	return answer, h.keep(answer.Messages)
}

// AfterAgent calls the hook after_agent.
func (h *Host) AfterAgent(in abi.AfterAgentInput) (abi.AfterAgentAnswer, error) {
	h.show(&in.Messages, abi.ListState)
	return call[abi.AfterAgentAnswer](h, contract.HookAfterAgent, &in)
}

// Observe calls the hook observe.
func (h *Host) Observe(in abi.ObserveInput) (abi.ObserveAnswer, error) {
	return call[abi.ObserveAnswer](h, contract.HookObserve, &in)
}

// TranslateBefore calls the hook translate_before.
func (h *Host) TranslateBefore(in abi.TranslateInput) (abi.TranslateAnswer, error) {
	return call[abi.TranslateAnswer](h, contract.HookTranslateBefore, &in)
}

// TranslateAfter calls the hook translate_after.
func (h *Host) TranslateAfter(in abi.TranslateInput) (abi.TranslateAnswer, error) {
	return call[abi.TranslateAnswer](h, contract.HookTranslateAfter, &in)
}
