package abi

// Exchange returns pointers to a new input and a new answer of hook h, or nil if h is
// unknown.
func Exchange(h Hook) (in, answer any) {
	switch h {
	case HookDescribe:
		return &struct{}{}, &Description{}
	case HookConfigure:
		return &ConfigureInput{}, &ConfigureAnswer{}
	case HookBeforeAgent:
		return &BeforeAgentInput{}, &BeforeAgentAnswer{}
	case HookBeforeModelRewriteState:
		return &BeforeModelRewriteStateInput{}, &BeforeModelRewriteStateAnswer{}
	case HookBeforeModel:
		return &BeforeModelInput{}, &BeforeModelAnswer{}
	case HookWrapModel:
		return &WrapModelInput{}, &WrapModelAnswer{}
	case HookOnChunk:
		return &OnChunkInput{}, &OnChunkAnswer{}
	case HookAfterModel:
		return &AfterModelInput{}, &AfterModelAnswer{}
	case HookAfterModelRewriteState:
		return &AfterModelRewriteStateInput{}, &AfterModelRewriteStateAnswer{}
	case HookBeforeTool:
		return &BeforeToolInput{}, &BeforeToolAnswer{}
	case HookWrapToolCall:
		return &WrapToolCallInput{}, &WrapToolCallAnswer{}
	case HookGateTool:
		return &GateToolInput{}, &GateToolAnswer{}
	case HookCallTool:
		return &CallToolInput{}, &CallToolAnswer{}
	case HookAfterTool:
		return &AfterToolInput{}, &AfterToolAnswer{}
	case HookToolMessages:
		return &ToolMessagesInput{}, &ToolMessagesAnswer{}
	case HookAfterTools:
		return &AfterToolsInput{}, &AfterToolsAnswer{}
	case HookAfterAgent:
		return &AfterAgentInput{}, &AfterAgentAnswer{}
	case HookObserve:
		return &ObserveInput{}, &ObserveAnswer{}
	case HookTranslateBefore, HookTranslateAfter:
		return &TranslateInput{}, &TranslateAnswer{}
	default:
		return nil, nil
	}
}
