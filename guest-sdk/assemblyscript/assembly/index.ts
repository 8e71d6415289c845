// An SDK for agent-runner middlewares in AssemblyScript, for version 1 of the ABI.
// README.md starts with an example.

import { Json, Value } from "./json";
import { Content } from "./special";
import { Description, Failure, GateToolAnswer, Interrupt, Message, Response, Stop, ToolResult, Chunk } from "./types";
import * as host from "./host";

export * from "./json";
export * from "./types";
export * from "./special";
export { host };
export { abort } from "./host";

/**
 * The common implementation of exports: reads the input, calls the hook, writes its
 * answer. An answer that the hook does not change has no effect.
 *
 *     export function gate_tool(len: i32): i32 {
 *         return hook<GateToolInput, GateToolAnswer>(len, (input, answer) => allow(answer));
 *     }
 */
export function hook<I extends Value, A extends Value>(len: i32, call: (input: I, answer: A) => Failure | null): i32 {
	host.collect();
	const input = instantiate<I>(), answer = instantiate<A>();
	const wrong = host.read(len, input);
	const failure = wrong.length > 0 ? Failure.of("internal", "the hook's input cannot be read: " + wrong) : call(input, answer);
	if (failure !== null) {
		host.write(failure);
		return 1;
	}
	host.write(answer, false);
	return 0;
}

/** The input of describe. It has no fields. */
export class DescribeInput extends Value {}

/** Describes a module that reads messages one by one with List.at. */
export function describeAs(answer: Description, name: string, version: string, description: string): Failure | null {
	answer.name = name;
	answer.version = version;
	answer.description = description;
	answer.messages = "lazy";
	return null;
}

function said(role: string, text: string): Message {
	const m = new Message();
	m.role = role;
	m.content = Content.of(text);
	return m;
}

export function user(text: string): Message {
	return said("user", text);
}

export function assistant(text: string): Message {
	return said("assistant", text);
}

/** The message that answers a tool call. */
export function toolMessage(callId: string, tool: string, text: string): Message {
	const m = said("tool", text);
	m.tool_call_id = callId;
	m.name = tool;
	return m;
}

export function responseOf(message: Message): Response {
	const r = new Response();
	r.message = message;
	return r;
}

export function resultOf(text: string, isError: bool = false): ToolResult {
	const r = new ToolResult();
	r.content = Content.of(text);
	r.is_error = isError;
	return r;
}

/** A chunk of text. */
export function textChunk(text: string): Chunk {
	const c = new Chunk();
	c.kind = "text";
	c.text = text;
	return c;
}

export function allow(answer: GateToolAnswer): Failure | null {
	answer.decision = "allow";
	return null;
}

/** Denies a call. The model receives the message. */
export function deny(answer: GateToolAnswer, message: string): Failure | null {
	answer.decision = "deny";
	answer.message = message;
	return null;
}

/** Asks a person for approval. The payload is shown to the person. */
export function ask(answer: GateToolAnswer, message: string, payload: Json = ""): Failure | null {
	answer.decision = "ask";
	answer.message = message;
	answer.payload = payload;
	return null;
}

/** Ends the run if assigned to an answer's stop. */
export function stop(reason: string, code: string = ""): Stop {
	const s = new Stop();
	s.reason = reason;
	s.code = code;
	return s;
}

/** Pauses the run if assigned to an answer's interrupt. */
export function interrupt(reason: string, payload: Json = ""): Interrupt {
	const i = new Interrupt();
	i.reason = reason;
	i.payload = payload;
	return i;
}

export function invalid(message: string): Failure {
	return Failure.of("invalid", message);
}
