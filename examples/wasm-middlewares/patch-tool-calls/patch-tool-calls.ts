// Answers dangling tool calls: calls in an assistant's message that no tool message answers, because
// the user wrote again before the tools finished. Models reject such a conversation, or invent
// results. Optionally it also removes surplus results, or rejects an inconsistent conversation.
import { defineMiddleware, HookError } from "@agent-runner/middleware";
import type { Message, Messages, Splice, ToolCall } from "@agent-runner/middleware";

interface Config {
	language?: string;
	template?: string;
	remove_orphan_results?: boolean;
	remove_duplicate_results?: boolean;
	strict?: boolean;
}

// The default text of a placeholder by language.
const texts: Record<string, string> = {
	en: "Tool call {name} with id {id} was canceled - another message came in before it could be completed.",
	zh: "工具 {name} 的调用（id {id}）已取消：在它完成之前又收到了新的消息。",
};

let template = texts.en!;

export default defineMiddleware<Config>({
	name: "patch-tool-calls",
	version: "1.1.0",
	description: "Answers tool calls that were left without a result.",
	configSchema: {
		type: "object",
		additionalProperties: false,
		properties: {
			language: { type: "string", description: "of the text: en or zh" },
			template: { type: "string", description: "a text of one's own, with {name} and {id} of the call" },
			remove_orphan_results: { type: "boolean", description: "remove results whose call is not in the assistant's message right before them" },
			remove_duplicate_results: { type: "boolean", description: "remove all results of a call but the first" },
			strict: {
				type: "boolean",
				description: "repair nothing: a conversation with missing, orphaned or duplicate results, or with calls without an id, fails the run",
			},
		},
	},

	configure(_, ctx) {
		const { language = "en", template: own, strict, remove_orphan_results, remove_duplicate_results } = ctx.config;
		const text = texts[language];
		if (text === undefined) {
			throw new HookError(`config: language: ${JSON.stringify(language)} is not one of en, zh`, "invalid");
		}
		if (strict && (remove_orphan_results || remove_duplicate_results)) {
			throw new HookError(
				"config: strict repairs nothing, so remove_orphan_results and remove_duplicate_results cannot be set with it", "invalid");
		}
		template = own || text;
	},

	// Processes the rounds of calls and results in order. It starts at the round before the first
	// change since the last step, or at the first message if there are late results.
	beforeModelRewriteState({ messages }, ctx) {
		const splice: Splice[] = [];
		let [end, from] = [0, begin(messages, ctx.local.get<number>("looked"))];
		let late = new Late(messages, from);
		if (from > 0 && late.left.size > 0) [from, late] = [0, new Late(messages, 0)]; // the calls may be in any message
		for (let i = from; i < messages.length; i = end) {
			const r = readRound(messages, i);
			end = r.end;
			if (ctx.config.strict) {
				check(r, i);
				continue;
			}
			late.settle(r);
			if (r.missing.length > 0) splice.push({ at: r.first, insert: r.missing.map(placeholder) });
			for (const s of r.surplus) {
				if (!s.synthetic && (s.why === "orphan" ? !ctx.config.remove_orphan_results : !ctx.config.remove_duplicate_results)) continue;
				splice.push({ at: s.at, remove: 1 });
				ctx.emit("removed", { call: s.call, tool: s.tool, why: s.why });
			}
			for (const { id, function: f } of r.missing) ctx.emit("patched", { call: id, tool: f.name });
		}
		ctx.local.set("looked", messages.revision);
		return splice.length > 0 ? { messages: { splice } } : undefined;
	},
});

// begin returns the index of the first message to check: the last message before the first change,
// other than tool messages.
function begin(messages: Messages, looked: number | undefined): number {
	if (looked === undefined) return 0;
	let i = messages.changedSince(looked);
	while (i > 0 && messages.at(--i)!.role === "tool");
	return i;
}

// A round is a message and the tool messages right after it, which should answer each of its calls
// once. A list may begin with tool messages that follow no message.
interface Round {
	first: number; // the range of the tool messages
	end: number;
	missing: ToolCall[]; // calls without a result
	nameless: boolean; // there are calls without an id, which cannot be answered
	surplus: Surplus[]; // surplus results, in order
	placeholders: Map<string, Surplus>; // the placeholders that answer a call, by the call's id
}

interface Surplus {
	at: number;
	tool: string;
	call: string;
	why: "orphan" | "duplicate";
	synthetic: boolean; // a placeholder of this module
}

// readRound reads the round that begins with message i.
function readRound(messages: Messages, i: number): Round {
	const head = messages.at(i)!;
	const calls = head.role === "tool" ? [] : (head.tool_calls ?? []);
	const first = head.role === "tool" ? i : i + 1;
	const r: Round = { first, end: first, missing: [], nameless: false, surplus: [], placeholders: new Map() };
	const open = new Map<string, number>(); // number of calls without a result, by id
	for (const { id } of calls) {
		if (id === "") r.nameless = true;
		else open.set(id, (open.get(id) ?? 0) + 1);
	}
	for (let m = messages.at(r.end); m?.role === "tool"; m = messages.at(++r.end)) {
		const call = m.tool_call_id ?? "";
		const left = open.get(call);
		let gone: Surplus = { at: r.end, tool: m.name ?? "", call, why: left === undefined ? "orphan" : "duplicate", synthetic: synthetic(m) };
		if (left !== undefined && left > 0) {
			open.set(call, left - 1);
			if (gone.synthetic) r.placeholders.set(call, gone);
			continue;
		}
		// If a call has a placeholder and a result, the placeholder is surplus.
		const placeholder = r.placeholders.get(call);
		if (placeholder && !gone.synthetic) {
			gone = placeholder;
			r.placeholders.delete(call);
		}
		r.surplus.push(gone);
	}
	sort(r.surplus);
	for (const c of calls) {
		const left = open.get(c.id) ?? 0;
		if (left > 0) r.missing.push(c);
		open.set(c.id, left - 1);
	}
	return r;
}

function sort(surplus: Surplus[]): void {
	surplus.sort((a, b) => a.at - b.at);
}

// A Late counts the results that other messages separate from their calls. The host moves each to
// its call before it calls the model, if the call has no other result.
class Late {
	readonly left = new Map<string, number>(); // number of late results in the following rounds, by the call's id
	private awaited = new Set<string>(); // ids of calls in earlier rounds that a late result answers

	// The constructor counts the late results from message i on.
	constructor(messages: Messages, i: number) {
		let calls: readonly ToolCall[] = [];
		for (; i < messages.length; i++) {
			const m = messages.at(i)!;
			if (m.role !== "tool") calls = m.tool_calls ?? [];
			else if (!calls.some((c) => c.id === m.tool_call_id) && !synthetic(m)) this.add(m.tool_call_id ?? "", 1);
		}
	}

	// settle corrects the round for late results. A call that a late result answers is not missing a
	// result, and its placeholder is surplus. The late result itself is not surplus.
	settle(r: Round): void {
		r.surplus = r.surplus.filter((s) => {
			if (s.why !== "orphan" || s.synthetic) return true;
			this.add(s.call, -1);
			return !this.awaited.delete(s.call);
		});
		r.missing = r.missing.filter((c) => !this.awaits(c.id));
		for (const [id, placeholder] of r.placeholders) if (this.awaits(id)) r.surplus.push(placeholder);
		sort(r.surplus);
	}

	private add(id: string, n: number): void {
		this.left.set(id, (this.left.get(id) ?? 0) + n);
	}

	// awaits reports whether a later result answers a call of the current round.
	private awaits(id: string): boolean {
		if ((this.left.get(id) ?? 0) <= 0) return false;
		this.awaited.add(id);
		return true;
	}
}

// check throws an error that lists all inconsistencies of the round that begins with message i.
function check(r: Round, i: number): void {
	const faults = r.nameless ? [`message ${i} has a call without an id`] : [];
	for (const c of r.missing) faults.push(`the call ${c.function.name}#${c.id} of message ${i} has no result`);
	for (const s of r.surplus) faults.push(`message ${s.at} is a result of ${s.tool}#${s.call}: ${s.why}`);
	if (faults.length > 0) {
		throw new HookError(`the conversation is not sound: ${faults.join("; ")}; mend it, or configure without strict`, "invalid");
	}
}

// placeholder answers a call. Its extra marks it as synthetic for later readers of the
// conversation; models do not see it.
function placeholder({ id, function: { name } }: ToolCall): Message {
	const content = template.replaceAll("{name}", () => name).replaceAll("{id}", () => id);
	return { role: "tool", tool_call_id: id, name, content, extra: { synthetic: true } };
}

function synthetic(m: Message): boolean {
	return (m.extra as { synthetic?: unknown } | undefined)?.synthetic === true;
}
