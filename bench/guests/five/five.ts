// The five middlewares in one module, like the module in Go. The configuration of an entry selects
// one of them.
import { allow, defineMiddleware, deny, HookError, textOf } from "@agent-runner/middleware";
import type { Result, Splice } from "@agent-runner/middleware";

interface Config {
	use: string;
}

// address reports whether a character can be part of an address.
function address(c: number): boolean {
	return (c >= 97 && c <= 122) || (c >= 65 && c <= 90) || (c >= 48 && c <= 57) || c === 46 || c === 45 || c === 95;
}

// redacted returns the text with its addresses replaced. Like the modules in other languages, it
// checks the characters around each @.
function redacted(text: string): string {
	let out = "", done = 0;
	for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", done)) {
		let from = at, to = at + 1;
		while (from > done && address(text.charCodeAt(from - 1))) from--;
		while (to < text.length && address(text.charCodeAt(to))) to++;
		out += from === at || to === at + 1 ? text.slice(done, to) : text.slice(done, from) + "[address]";
		done = to;
	}
	return done === 0 ? text : out + text.slice(done);
}

export default defineMiddleware<Config>({
	name: "five",
	events: ["message", "tool_result"],

	configure(_, { config }) {
		if (!["patch", "policy", "redact", "cache", "observe"].includes(config.use)) {
			throw new HookError(`there is no ${JSON.stringify(config.use)}`, "invalid");
		}
	},

	// patch adds an answer to each call without one.
	beforeModelRewriteState({ messages }) {
		const all = messages.slice();
		const answered = new Set(all.filter((m) => m.role === "tool").map((m) => m.tool_call_id));
		const splice: Splice[] = [];
		all.forEach(({ tool_calls = [] }, i) => {
			const open = tool_calls.filter((c) => !answered.has(c.id));
			if (open.length > 0) {
				splice.push({
					at: i + 1,
					insert: open.map((c) => ({ role: "tool", tool_call_id: c.id, name: c.function.name, content: "This call was canceled." })),
				});
			}
		});
		return splice.length > 0 ? { messages: { splice } } : undefined;
	},

	// policy decides which tools may be called.
	gateTool({ call }) {
		return call.name === "delete" || call.arguments.includes("/etc/") ? deny("this is not allowed here") : allow();
	},

	// redact replaces addresses in the stream and in tool results.
	onChunk({ chunks }) {
		const out = chunks.map((c) => ("text" in c && c.text ? { ...c, text: redacted(c.text) } : c));
		return { chunks: out };
	},

	afterTool({ result }) {
		if (!result) return undefined;
		const text = textOf(result);
		const clean = redacted(text);
		return clean === text ? undefined : { result: { ...result, content: clean } };
	},

	// cache stores the result of a call in a run-local value.
	wrapToolCall({ call }, ctx) {
		const key = `${call.name} ${call.arguments}`;
		const kept = ctx.local.get<Result>(key);
		if (kept !== undefined) return { result: kept };
		const result = ctx.next();
		ctx.local.set(key, result);
		return { result };
	},

	// observe counts events by type.
	observe({ events }, ctx) {
		const counts = ctx.local.get<Record<string, number>>("run/counts") ?? {};
		for (const { type } of events) counts[type] = (counts[type] ?? 0) + 1;
		ctx.local.set("run/counts", counts);
	},
});
