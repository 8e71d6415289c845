// A module for the tests of the golden vectors: each hook writes its decoded input,
// answer_HOOK does the same with an answer, and other exports with other types.

import * as am from "../../../assembly";

function mirror<T extends am.Value>(len: i32): i32 {
	const value = instantiate<T>();
	if (am.host.read(len, value).length > 0) return 1;
	am.host.write(value);
	return 0;
}

export function describe(len: i32): i32 {
	return mirror<am.DescribeInput>(len);
}

export function answer_describe(len: i32): i32 {
	return mirror<am.Description>(len);
}

export function configure(len: i32): i32 {
	return mirror<am.ConfigureInput>(len);
}

export function answer_configure(len: i32): i32 {
	return mirror<am.ConfigureAnswer>(len);
}

export function before_agent(len: i32): i32 {
	return mirror<am.BeforeAgentInput>(len);
}

export function answer_before_agent(len: i32): i32 {
	return mirror<am.BeforeAgentAnswer>(len);
}

export function before_model_rewrite_state(len: i32): i32 {
	return mirror<am.BeforeModelRewriteStateInput>(len);
}

export function answer_before_model_rewrite_state(len: i32): i32 {
	return mirror<am.BeforeModelRewriteStateAnswer>(len);
}

export function before_model(len: i32): i32 {
	return mirror<am.BeforeModelInput>(len);
}

export function answer_before_model(len: i32): i32 {
	return mirror<am.BeforeModelAnswer>(len);
}

export function wrap_model(len: i32): i32 {
	return mirror<am.WrapModelInput>(len);
}

export function answer_wrap_model(len: i32): i32 {
	return mirror<am.WrapModelAnswer>(len);
}

export function on_chunk(len: i32): i32 {
	return mirror<am.OnChunkInput>(len);
}

export function answer_on_chunk(len: i32): i32 {
	return mirror<am.OnChunkAnswer>(len);
}

export function after_model(len: i32): i32 {
	return mirror<am.AfterModelInput>(len);
}

export function answer_after_model(len: i32): i32 {
	return mirror<am.AfterModelAnswer>(len);
}

export function after_model_rewrite_state(len: i32): i32 {
	return mirror<am.AfterModelRewriteStateInput>(len);
}

export function answer_after_model_rewrite_state(len: i32): i32 {
	return mirror<am.AfterModelRewriteStateAnswer>(len);
}

export function before_tool(len: i32): i32 {
	return mirror<am.BeforeToolInput>(len);
}

export function answer_before_tool(len: i32): i32 {
	return mirror<am.BeforeToolAnswer>(len);
}

export function wrap_tool_call(len: i32): i32 {
	return mirror<am.WrapToolCallInput>(len);
}

export function answer_wrap_tool_call(len: i32): i32 {
	return mirror<am.WrapToolCallAnswer>(len);
}

export function gate_tool(len: i32): i32 {
	return mirror<am.GateToolInput>(len);
}

export function answer_gate_tool(len: i32): i32 {
	return mirror<am.GateToolAnswer>(len);
}

export function call_tool(len: i32): i32 {
	return mirror<am.CallToolInput>(len);
}

export function answer_call_tool(len: i32): i32 {
	return mirror<am.CallToolAnswer>(len);
}

export function after_tool(len: i32): i32 {
	return mirror<am.AfterToolInput>(len);
}

export function answer_after_tool(len: i32): i32 {
	return mirror<am.AfterToolAnswer>(len);
}

export function tool_messages(len: i32): i32 {
	return mirror<am.ToolMessagesInput>(len);
}

export function answer_tool_messages(len: i32): i32 {
	return mirror<am.ToolMessagesAnswer>(len);
}

export function after_tools(len: i32): i32 {
	return mirror<am.AfterToolsInput>(len);
}

export function answer_after_tools(len: i32): i32 {
	return mirror<am.AfterToolsAnswer>(len);
}

export function after_agent(len: i32): i32 {
	return mirror<am.AfterAgentInput>(len);
}

export function answer_after_agent(len: i32): i32 {
	return mirror<am.AfterAgentAnswer>(len);
}

export function observe(len: i32): i32 {
	return mirror<am.ObserveInput>(len);
}

export function answer_observe(len: i32): i32 {
	return mirror<am.ObserveAnswer>(len);
}

export function translate_before(len: i32): i32 {
	return mirror<am.TranslateInput>(len);
}

export function answer_translate_before(len: i32): i32 {
	return mirror<am.TranslateAnswer>(len);
}

export function translate_after(len: i32): i32 {
	return mirror<am.TranslateInput>(len);
}

export function answer_translate_after(len: i32): i32 {
	return mirror<am.TranslateAnswer>(len);
}

export function error(len: i32): i32 {
	return mirror<am.Failure>(len);
}

export function request_patch(len: i32): i32 {
	return mirror<am.RequestPatch>(len);
}

export function model_reply(len: i32): i32 {
	return mirror<am.ModelReply>(len);
}

export function call_patch(len: i32): i32 {
	return mirror<am.CallPatch>(len);
}

export function tool_reply(len: i32): i32 {
	return mirror<am.ToolReply>(len);
}

export function sent(len: i32): i32 {
	return mirror<am.Sent>(len);
}

export function received(len: i32): i32 {
	return mirror<am.Received>(len);
}
