// Hides e-mail addresses, card numbers, IP addresses and IBANs in the messages that a run begins
// with, in requests to the model, in tools' results, and in the model's answers, even where a
// streamed chunk ends in the middle of an address.
//
// Unlike the Go version it has no hashes, custom patterns, tool arguments, IPv6 addresses, or
// non-ASCII letters in addresses.
import {
	AfterAgentAnswer, AfterAgentInput, AfterModelRewriteStateAnswer, AfterModelRewriteStateInput, AfterToolAnswer, AfterToolInput,
	BeforeAgentAnswer, BeforeAgentInput, BeforeModelAnswer, BeforeModelInput, Chunk, ConfigureAnswer, ConfigureInput, Content, Description,
	DescribeInput, Failure, Kind, List, ListPatch, Message, OnChunkAnswer, OnChunkInput, Tree, decode, describeAs, encode, hook, host, invalid, object, parse, quote,
} from "../../../../../guest-sdk/assemblyscript/assembly";
import { KINDS } from "./kinds";
import { Finds, Scanner, Tail } from "./scanner";

const SCHEMA =
	'{"type":"object","additionalProperties":false,"properties":{' +
	'"detect":{"type":"array","items":{"type":"string"},"description":"which of email, credit_card, ip, iban to look for"},' +
	'"strategy":{"type":"string","description":"what stands in the place of a find: redact or mask"},' +
	'"input":{"type":"boolean","description":"hide in the user\'s messages, in requests and in the run\'s state"},' +
	'"output":{"type":"boolean","description":"hide in the model\'s answers"},' +
	'"tool_results":{"type":"boolean","description":"hide in what tools answer"}}}';

export function describe(len: i32): i32 {
	return hook<DescribeInput, Description>(len, (_, answer) => {
		answer.config_schema = SCHEMA;
		return describeAs(answer, "redact", "1.1.0", "Hides e-mail addresses, card numbers, IP addresses and IBANs.");
	});
}

// State that configure sets is part of the module's memory image.
let scanner = new Scanner();
let inInput = true;
let inOutput = true;
let inResults = true;

function flag(config: Tree, key: string): bool {
	return config.get(key) === null || config.isTrue(key);
}

export function configure(len: i32): i32 {
	return hook<ConfigureInput, ConfigureAnswer>(len, (input, _) => {
		scanner = new Scanner();
		const config = parse(input.config);
		if (config === null || config.kind != Kind.Object) return null;
		if (config.get("detect") !== null) {
			const names = config.textsOf("detect");
			scanner.detect = [];
			for (let i = 0; i < names.length; i++) {
				const kind = KINDS.indexOf(names[i]);
				if (kind < 0) return invalid(`config: detect[${i}]: ${quote(names[i])} is not one of email, credit_card, ip, iban`);
				scanner.detect.push(kind);
			}
		}
		const strategy = config.textOf("strategy", "redact");
		if (strategy != "redact" && strategy != "mask") return invalid(`config: strategy: ${quote(strategy)} is not one of redact, mask`);
		scanner.mask = strategy == "mask";
		inInput = flag(config, "input");
		inOutput = flag(config, "output");
		inResults = flag(config, "tool_results");
		return null;
	});
}

// Changes the run's state, so that the run is stored without the data.
export function before_agent(len: i32): i32 {
	return hook<BeforeAgentInput, BeforeAgentAnswer>(len, (input, answer) => hideList(input.messages, answer.messages, "input"));
}

// Processes messages that other modules have added.
export function before_model(len: i32): i32 {
	return hook<BeforeModelInput, BeforeModelAnswer>(len, (input, answer) =>
		hideList(input.request.messages, answer.request.messages, "request"));
}

// hideList redacts all messages of a list, and emits an event.
function hideList(messages: List, patch: ListPatch, where: string): Failure | null {
	const finds = new Finds();
	for (let i = 0; i < messages.length; i++) {
		const m = messages.at(i);
		if (!m.ok) return m.failure;
		const hidden = hide(m.value, finds);
		if (hidden !== null) patch.set(i, hidden);
	}
	return finds.tell(where);
}

// Processes an answer that did not pass through on_chunk, because a module made it.
export function after_model_rewrite_state(len: i32): i32 {
	return hook<AfterModelRewriteStateInput, AfterModelRewriteStateAnswer>(len, (input, answer) => {
		const last = input.messages.length - 1, finds = new Finds();
		if (last < 0) return null;
		const m = input.messages.at(last);
		if (!m.ok) return m.failure;
		const hidden = hide(m.value, finds);
		if (hidden !== null) answer.messages.set(last, hidden);
		return finds.tell("output");
	});
}

// Processes a tool's result or error.
export function after_tool(len: i32): i32 {
	return hook<AfterToolInput, AfterToolAnswer>(len, (input, answer) => {
		const result = input.result, error = input.error, finds = new Finds();
		if (!inResults) return null;
		if (result !== null && hideContent(result.content, finds)) answer.result = result;
		if (error !== null) {
			error.message = scanner.all(error.message, finds);
			answer.error = error;
		}
		return finds.tell("tool_result");
	});
}

// Processes a final answer that another module has changed.
export function after_agent(len: i32): i32 {
	return hook<AfterAgentInput, AfterAgentAnswer>(len, (input, answer) => {
		const final = input.final, finds = new Finds();
		if (final !== null) answer.final = hide(final, finds);
		return finds.tell("output");
	});
}

// The end of a text in a stream that is held back, because more text could make it a match.
class Held {
	callId: string = "";
	tail: Tail = new Tail();
	was: Tail = new Tail();

	constructor(public kind: string) {}
}

const STREAMED = ["text", "reasoning", "tool_result"];

// Releases text that cannot become part of a match any more. Held text is a run-local value,
// because the host may discard the module's memory before the next chunk.
export function on_chunk(len: i32): i32 {
	return hook<OnChunkInput, OnChunkAnswer>(len, (input, answer) => {
		const held: Held[] = [], output = new Finds(), results = new Finds(), out: Chunk[] = [];
		for (let i = 0; i < input.chunks.length; i++) {
			const c = input.chunks[i], finds = c.call_id.length > 0 ? results : output, part = c.part;
			if (part !== null) part.text = scanner.all(part.text, finds); // parts arrive whole
			if (STREAMED.includes(c.kind) && (c.kind == "tool_result" ? inResults : inOutput)) {
				const failure = heldOf(held, input.stream, c.kind);
				if (failure !== null) return failure;
				const h = nth(held, c.kind), was = c.text;
				h.callId = c.call_id;
				c.text = scanner.next(h.tail, was, false, finds);
				if (c.text.length == 0 && was.length > 0) continue;
			}
			out.push(c);
		}
		for (let i = 0; i < STREAMED.length && input.final; i++) {
			const failure = heldOf(held, input.stream, STREAMED[i]);
			if (failure !== null) return failure;
			const h = nth(held, STREAMED[i]), c = new Chunk();
			c.kind = h.kind;
			c.call_id = h.callId;
			c.text = scanner.next(h.tail, "", true, i == 2 ? results : output);
			if (c.text.length > 0) out.push(c);
		}
		answer.chunks = out;
		for (let i = 0; i < held.length; i++) {
			const failure = keep(held[i], input.stream);
			if (failure !== null) return failure;
		}
		const failure = output.tell("output");
		return failure !== null ? failure : results.tell("tool_result");
	});
}

function keyOf(kind: string, stream: i64): string {
	return `stream/${stream}/${kind}`;
}

function nth(held: Held[], kind: string): Held {
	for (let i = 0; i < held.length; i++) if (held[i].kind == kind) return held[i];
	const h = new Held(kind);
	held.push(h);
	return h;
}

// heldOf loads the held state of a text into held.
function heldOf(held: Held[], stream: i64, kind: string): Failure | null {
	const n = held.length, h = nth(held, kind);
	if (n == held.length) return null;
	const kept = host.localGet(keyOf(kind, stream));
	if (!kept.ok) return kept.failure;
	const value = parse(kept.value.value);
	if (value === null) return null;
	h.callId = value.textOf("call_id", "");
	h.was.before = h.tail.before = value.textOf("before", "");
	h.was.text = h.tail.text = value.textOf("text", "");
	return null;
}

function keep(h: Held, stream: i64): Failure | null {
	if (h.tail.before == h.was.before && h.tail.text == h.was.text) return null;
	return host.localSet(keyOf(h.kind, stream), object(["before", h.tail.before, "text", h.tail.text, "call_id", h.callId]), host.ALWAYS);
}

// hide returns a redacted copy of a message, or null if nothing changes. It does not modify the
// message, which may be read again.
function hide(m: Message, finds: Finds): Message | null {
	if (!(m.role == "user" ? inInput : m.role == "tool" ? inResults : m.role == "assistant" && inOutput)) return null;
	const copy = new Message();
	if (decode(encode(m), copy).length > 0) return null;
	const changed = hideContent(copy.content, finds);
	copy.reasoning_content = scanner.all(m.reasoning_content, finds);
	return changed || copy.reasoning_content != m.reasoning_content ? copy : null;
}

function hideContent(content: Content, finds: Finds): bool {
	const text = content.text, parts = content.parts;
	let changed = false;
	if (text !== null) {
		content.text = scanner.all(text, finds);
		changed = content.text != text;
	}
	for (let i = 0; parts !== null && i < parts.length; i++) {
		const was = parts[i].text;
		parts[i].text = scanner.all(was, finds);
		changed = changed || parts[i].text != was;
	}
	return changed;
}
