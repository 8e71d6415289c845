// Answers dangling tool calls: calls in an assistant's message that no tool message answers, because
// the user wrote again before the tools finished. Models reject such a conversation, or invent
// results. Optionally it also removes surplus results, or rejects an inconsistent conversation.
import {
	BeforeModelRewriteStateAnswer, BeforeModelRewriteStateInput, ConfigureAnswer, ConfigureInput, Description, DescribeInput, Failure, List,
	ListPatch, Message, ToolCall, describeAs, hook, host, invalid, object, parse, quote, toolMessage,
} from "../../../../../guest-sdk/assemblyscript/assembly";

export function describe(len: i32): i32 {
	return hook<DescribeInput, Description>(len, (_, answer) => {
		answer.config_schema = SCHEMA;
		return describeAs(answer, "patch-tool-calls", "1.1.0", "Answers tool calls that were left without a result.");
	});
}

const SCHEMA =
	'{"type":"object","additionalProperties":false,"properties":{' +
	'"language":{"type":"string","description":"of the text: en or zh"},' +
	'"template":{"type":"string","description":"a text of one\'s own, with {name} and {id} of the call"},' +
	'"remove_orphan_results":{"type":"boolean","description":"remove results whose call is not in the assistant\'s message right before them"},' +
	'"remove_duplicate_results":{"type":"boolean","description":"remove all results of a call but the first"},' +
	'"strict":{"type":"boolean","description":"repair nothing: a conversation with missing, orphaned or duplicate results, or with calls without an id, fails the run"}}}';

const ENGLISH = "Tool call {name} with id {id} was canceled - another message came in before it could be completed.";
const CHINESE = "工具 {name} 的调用（id {id}）已取消：在它完成之前又收到了新的消息。";

// State that configure computes is part of the module's memory image.
let template: string = ENGLISH;
let strict: bool = false;
let removeOrphans: bool = false;
let removeDuplicates: bool = false;

export function configure(len: i32): i32 {
	return hook<ConfigureInput, ConfigureAnswer>(len, (input, _) => {
		const config = parse(input.config);
		if (config === null) return null;
		const language = config.textOf("language", "en");
		if (language != "en" && language != "zh") return invalid("config: language: " + quote(language) + " is not one of en, zh");
		strict = config.isTrue("strict");
		removeOrphans = config.isTrue("remove_orphan_results");
		removeDuplicates = config.isTrue("remove_duplicate_results");
		if (strict && (removeOrphans || removeDuplicates))
			return invalid("config: strict repairs nothing, so remove_orphan_results and remove_duplicate_results cannot be set with it");
		template = config.textOf("template", "");
		if (template.length == 0) template = language == "en" ? ENGLISH : CHINESE;
		return null;
	});
}

// Processes the rounds of calls and results in order. It starts at the round before the first change
// since the last step, or at the first message if there are late results.
export function before_model_rewrite_state(len: i32): i32 {
	return hook<BeforeModelRewriteStateInput, BeforeModelRewriteStateAnswer>(len, (input, answer) => {
		const messages = input.messages;
		const from = begin(messages);
		if (from.failure !== null) return from.failure;
		let i = from.index, late = new Late();
		let failure = late.read(messages, i);
		if (failure === null && i > 0 && late.left.size > 0) {
			i = 0; // the calls may be in any message
			late = new Late();
			failure = late.read(messages, 0);
		}
		if (failure !== null) return failure;
		while (i < messages.length) {
			const round = new Round();
			failure = round.read(messages, i);
			if (failure === null && !strict) late.settle(round);
			if (failure === null) failure = strict ? round.check(i) : mend(round, answer.messages);
			if (failure !== null) return failure;
			i = round.first + round.results.length;
		}
		return host.localSet("looked", messages.revision.toString(), host.ALWAYS);
	});
}

class Place {
	constructor(public failure: Failure | null, public index: i32) {}
}

// begin returns the index of the first message to check: the last message before the first change,
// other than tool messages.
function begin(messages: List): Place {
	const looked = host.localGet("looked");
	if (!looked.ok) return new Place(looked.failure, 0);
	if (looked.value.version == 0) return new Place(null, 0);
	let i = messages.changedSince(I64.parseInt(looked.value.value));
	while (i > 0) {
		const m = messages.at(--i);
		if (!m.ok) return new Place(m.failure, 0);
		if (m.value.role != "tool") break;
	}
	return new Place(null, i);
}

class Result {
	surplus: bool = false;
	orphan: bool = false;
	constructor(public message: Message) {}

	get why(): string {
		return this.orphan ? "orphan" : "duplicate";
	}
}

function synthetic(m: Message): bool {
	const extra = parse(m.extra);
	return extra !== null && extra.isTrue("synthetic");
}

// A Round is a message and the tool messages right after it, which should answer each of its calls
// once. A list may begin with tool messages that follow no message.
class Round {
	first: i32 = 0; // the index of the first tool message
	calls: ToolCall[] = [];
	answers: i32[] = []; // index of the result of each call, or -1
	results: Result[] = [];

	// read reads the round that begins with message i.
	read(messages: List, i: i32): Failure | null {
		const head = messages.at(i);
		if (!head.ok) return head.failure;
		const headless = head.value.role == "tool";
		this.first = headless ? i : i + 1;
		if (!headless) this.calls = head.value.tool_calls;
		for (let k = 0; k < this.calls.length; k++) this.answers.push(-1);
		for (let k = this.first; k < messages.length; k++) {
			const m = messages.at(k);
			if (!m.ok) return m.failure;
			if (m.value.role != "tool") break;
			this.add(m.value);
		}
		return null;
	}

	// add assigns a result to its call. If a call has a placeholder and a result, the placeholder
	// is surplus.
	private add(message: Message): void {
		const result = new Result(message), n = this.results.length;
		let free = -1, placeholder = -1, known = false;
		for (let k = 0; k < this.calls.length; k++) {
			const id = this.calls[k].id, a = this.answers[k];
			if (id.length == 0 || id != message.tool_call_id) continue;
			known = true;
			if (a < 0) free = free < 0 ? k : free;
			else if (synthetic(this.results[a].message)) placeholder = k;
		}
		if (free >= 0) {
			this.answers[free] = n;
		} else if (placeholder >= 0 && !synthetic(message)) {
			this.results[this.answers[placeholder]].surplus = true;
			this.answers[placeholder] = n;
		} else {
			result.surplus = true;
			result.orphan = !known;
		}
		this.results.push(result);
	}

	// missing returns the calls to answer. A call without an id cannot be answered.
	missing(): ToolCall[] {
		const out: ToolCall[] = [];
		for (let k = 0; k < this.calls.length; k++) if (this.answers[k] < 0 && this.calls[k].id.length > 0) out.push(this.calls[k]);
		return out;
	}

	// check returns an error that lists all inconsistencies of the round that begins with message
	// i.
	check(i: i32): Failure | null {
		const faults: string[] = [];
		for (let k = 0; k < this.calls.length; k++) {
			if (this.calls[k].id.length > 0) continue;
			faults.push(`message ${i} has a call without an id`);
			break;
		}
		const missing = this.missing();
		for (let k = 0; k < missing.length; k++) faults.push(`the call ${missing[k].function.name}#${missing[k].id} of message ${i} has no result`);
		for (let k = 0; k < this.results.length; k++) {
			const r = this.results[k];
			if (r.surplus) faults.push(`message ${this.first + k} is a result of ${r.message.name}#${r.message.tool_call_id}: ${r.why}`);
		}
		if (faults.length == 0) return null;
		return invalid(`the conversation is not sound: ${faults.join("; ")}; mend it, or configure without strict`);
	}
}

// A Late counts the results that other messages separate from their calls. The host moves each to
// its call before it calls the model, if the call has no other result.
class Late {
	left: Map<string, i32> = new Map(); // number of late results in the following rounds, by the call's id
	private awaited: Set<string> = new Set(); // ids of calls in earlier rounds that a late result answers

	// read counts the late results from message i on.
	read(messages: List, i: i32): Failure | null {
		let calls: ToolCall[] = [];
		for (; i < messages.length; i++) {
			const m = messages.at(i);
			if (!m.ok) return m.failure;
			const message = m.value;
			if (message.role != "tool") calls = message.tool_calls;
			else if (!has(calls, message.tool_call_id) && !synthetic(message)) this.add(message.tool_call_id, 1);
		}
		return null;
	}

	// settle corrects the round for late results. A call that a late result answers is not missing a
	// result, and its placeholder is surplus. The late result itself is not surplus.
	settle(round: Round): void {
		for (let k = 0; k < round.results.length; k++) {
			const r = round.results[k], id = r.message.tool_call_id;
			if (!r.orphan || synthetic(r.message)) continue;
			this.add(id, -1);
			if (this.awaited.delete(id)) r.surplus = false;
		}
		const calls: ToolCall[] = [], answers: i32[] = [];
		for (let k = 0; k < round.calls.length; k++) {
			const id = round.calls[k].id, a = round.answers[k];
			if ((a < 0 || synthetic(round.results[a].message)) && this.left.has(id) && this.left.get(id) > 0) {
				if (a >= 0) round.results[a].surplus = true;
				this.awaited.add(id);
			} else {
				calls.push(round.calls[k]);
				answers.push(a);
			}
		}
		round.calls = calls;
		round.answers = answers;
	}

	private add(id: string, n: i32): void {
		this.left.set(id, (this.left.has(id) ? this.left.get(id) : 0) + n);
	}
}

function has(calls: ToolCall[], id: string): bool {
	for (let k = 0; k < calls.length; k++) if (calls[k].id == id) return true;
	return false;
}

// mend inserts a placeholder for each call without a result, before the existing results, and
// removes surplus placeholders, and surplus results as configured.
function mend(round: Round, patch: ListPatch): Failure | null {
	const missing = round.missing();
	let failure: Failure | null = null;
	for (let k = 0; k < missing.length; k++) patch.insert(round.first, placeholder(missing[k]));
	for (let k = 0; k < round.results.length && failure === null; k++) {
		const r = round.results[k];
		if (!r.surplus || !(synthetic(r.message) || (r.orphan ? removeOrphans : removeDuplicates))) continue;
		patch.delete(round.first + k, round.first + k + 1);
		failure = host.emit("removed", object(["call", r.message.tool_call_id, "tool", r.message.name, "why", r.why]));
	}
	for (let k = 0; k < missing.length && failure === null; k++)
		failure = host.emit("patched", object(["call", missing[k].id, "tool", missing[k].function.name]));
	return failure;
}

// placeholder answers a call. Its extra marks it as synthetic for later readers of the
// conversation; models do not see it.
function placeholder(c: ToolCall): Message {
	let text = "";
	for (let i = 0; i < template.length; i++) {
		const isName = template.substr(i, 6) == "{name}", isId = template.substr(i, 4) == "{id}";
		text += isName ? c.function.name : isId ? c.id : template.charAt(i);
		i += isName ? 5 : isId ? 3 : 0;
	}
	const m = toolMessage(c.id, c.function.name, text);
	m.extra = '{"synthetic":true}';
	return m;
}
