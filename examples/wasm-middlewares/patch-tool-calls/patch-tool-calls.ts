// Answers dangling tool calls: those of an assistant's message that no tool message
// answers, because somebody wrote again before the tools were done. Models refuse
// such a conversation, or guess.
import { defineMiddleware, HookError } from "@agent-runner/middleware";
import type { Message, Messages, Splice, ToolCall } from "@agent-runner/middleware";

interface Config {
	language?: string;
	template?: string;
}

// What is said, in each language, of a call that was canceled.
const texts: Record<string, string> = {
	en: "Tool call {name} with id {id} was canceled - another message came in before it could be completed.",
	zh: "工具 {name} 的调用（id {id}）已取消：在它完成之前又收到了新的消息。",
};

let template = texts.en!;

export default defineMiddleware<Config>({
	name: "patch-tool-calls",
	version: "1.0.0",
	description: "Answers tool calls that were left without a result.",
	configSchema: {
		type: "object",
		additionalProperties: false,
		properties: {
			language: { type: "string", description: "of the text: en or zh" },
			template: { type: "string", description: "a text of one's own, with {name} and {id} of the call" },
		},
	},

	configure(_, ctx) {
		const { language = "en", template: own } = ctx.config;
		const text = texts[language];
		if (text === undefined) {
			throw new HookError(`config: language: ${JSON.stringify(language)} is not one of en, zh`, "invalid");
		}
		template = own || text;
	},

	// A placeholder stands behind each message with dangling calls, in the order of
	// the calls, before the results that are there.
	beforeModelRewriteState({ messages }, ctx) {
		const splice: Splice[] = [];
		for (let i = begin(messages, ctx.local.get<number>("looked")); i < messages.length; i++) {
			const calls = messages.at(i)!.tool_calls ?? [];
			const open = dangling(calls, messages, i + 1);
			if (open.length > 0) splice.push({ at: i + 1, insert: open.map(placeholder) });
			for (const { id, function: f } of open) ctx.emit("patched", { call: id, tool: f.name });
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

// dangling are the calls that the tool messages from i on do not answer. A call
// without an id cannot be answered.
function dangling(calls: readonly ToolCall[], messages: Messages, i: number): ToolCall[] {
	if (calls.length === 0) return [];
	const answered = new Set<string | undefined>();
	for (let m = messages.at(i); m?.role === "tool"; m = messages.at(++i)) answered.add(m.tool_call_id);
	return calls.filter((c) => c.id !== "" && !answered.has(c.id));
}

function placeholder({ id, function: { name } }: ToolCall): Message {
	return { role: "tool", tool_call_id: id, name, content: template.replaceAll("{name}", () => name).replaceAll("{id}", () => id) };
}
