// Answers dangling tool calls: those of an assistant's message that no tool message
// answers, because somebody wrote again before the tools were done. Models refuse
// such a conversation, or guess. On request it also removes results that answer
// nothing, or refuses a conversation that is not sound.
import { defineMiddleware, HookError } from "@agent-runner/middleware";
import type { Message, Messages, Splice, ToolCall } from "@agent-runner/middleware";

interface Config {
	language?: string;
	template?: string;
	remove_orphan_results?: boolean;
	remove_duplicate_results?: boolean;
	strict?: boolean;
}

// What is said, in each language, of a call that was canceled.
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
				description: "mend nothing: a conversation with missing, orphaned or duplicate results, or with calls without an id, fails the run",
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
				"config: strict mends nothing, and remove_orphan_results and remove_duplicate_results do; set one or the other", "invalid");
		}
		template = own || text;
	},

	// Round after round of calls and their results is mended, from the first that
	// changed since the last step.
	beforeModelRewriteState({ messages }, ctx) {
		const splice: Splice[] = [];
		let end = 0;
		for (let i = begin(messages, ctx.local.get<number>("looked")); i < messages.length; i = end) {
			const r = readRound(messages, i);
			end = r.end;
			if (ctx.config.strict) {
				check(r, i);
				continue;
			}
			if (r.missing.length > 0) splice.push({ at: r.first, insert: r.missing.map(placeholder) });
			for (const s of r.surplus) {
				if (s.why === "orphan" ? !ctx.config.remove_orphan_results : !ctx.config.remove_duplicate_results) continue;
				splice.push({ at: s.at, remove: 1 });
				ctx.emit("removed", { call: s.call, tool: s.tool, why: s.why });
			}
			for (const { id, function: f } of r.missing) ctx.emit("patched", { call: id, tool: f.name });
		}
		ctx.local.set("looked", messages.revision);
		return splice.length > 0 ? { messages: { splice } } : undefined;
	},
});

// begin is the first message worth looking at: the nearest before the first change,
// since the last look, that is no tool message.
function begin(messages: Messages, looked: number | undefined): number {
	if (looked === undefined) return 0;
	let i = messages.changedSince(looked);
	while (i > 0 && messages.at(--i)!.role === "tool");
	return i;
}

// A round is a message and the tool messages right behind it, which are to answer its
// calls, each once. At the begin of a list there may be tool messages behind none.
interface Round {
	first: number; // of the tool messages, and where they end
	end: number;
	missing: ToolCall[]; // calls without a result
	nameless: boolean; // there are calls without an id, which cannot be answered
	surplus: Surplus[]; // results that answer nothing, in their order
}

interface Surplus {
	at: number;
	tool: string;
	call: string;
	why: "orphan" | "duplicate";
}

// readRound reads the round that begins with message i.
function readRound(messages: Messages, i: number): Round {
	const head = messages.at(i)!;
	const calls = head.role === "tool" ? [] : (head.tool_calls ?? []);
	const r: Round = { first: head.role === "tool" ? i : i + 1, end: 0, missing: [], nameless: false, surplus: [] };
	const open = new Map<string, number>(); // by id: how many calls have no result
	for (const { id } of calls) {
		if (id === "") r.nameless = true;
		else open.set(id, (open.get(id) ?? 0) + 1);
	}
	const placeholders = new Map<string, number>();
	r.end = r.first;
	for (let m = messages.at(r.end); m?.role === "tool"; m = messages.at(++r.end)) {
		const call = m.tool_call_id ?? "";
		const left = open.get(call);
		if (left !== undefined && left > 0) {
			open.set(call, left - 1);
			if (synthetic(m)) placeholders.set(call, r.end);
			continue;
		}
		// Of a placeholder and a result, the placeholder is one too many.
		const at = synthetic(m) ? undefined : placeholders.get(call);
		if (at !== undefined) placeholders.delete(call);
		r.surplus.push({ at: at ?? r.end, tool: m.name ?? "", call, why: left === undefined ? "orphan" : "duplicate" });
	}
	r.surplus.sort((a, b) => a.at - b.at);
	for (const c of calls) {
		const left = open.get(c.id) ?? 0;
		if (left > 0) r.missing.push(c);
		open.set(c.id, left - 1);
	}
	return r;
}

// check says what is not sound in the round that begins with message i.
function check(r: Round, i: number): void {
	const faults = r.nameless ? [`message ${i} has a call without an id`] : [];
	for (const c of r.missing) faults.push(`the call ${c.function.name}#${c.id} of message ${i} has no result`);
	for (const s of r.surplus) faults.push(`message ${s.at} is a result of ${s.tool}#${s.call}: ${s.why}`);
	if (faults.length > 0) {
		throw new HookError(`the conversation is not sound: ${faults.join("; ")}; mend it, or configure without strict`, "invalid");
	}
}

// placeholder answers a call. Its extra tells whoever reads the conversation later
// that no tool said this; a model does not see it.
function placeholder({ id, function: { name } }: ToolCall): Message {
	const content = template.replaceAll("{name}", () => name).replaceAll("{id}", () => id);
	return { role: "tool", tool_call_id: id, name, content, extra: { synthetic: true } };
}

function synthetic(m: Message): boolean {
	return (m.extra as { synthetic?: unknown } | undefined)?.synthetic === true;
}
