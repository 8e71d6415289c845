// Runs the agent of bench/agents in LangChain.js. The first line of standard input is the
// conversation. For each further line, the program runs the agent once and writes the answer to
// standard output as JSON. The arguments are "five" or "none" for the middlewares, and "stream" or
// "invoke".
import { createInterface } from "node:readline";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import { createAgent, createMiddleware, tool } from "langchain";
import { z } from "zod";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { history, found, answer, calls, dangling, canceled } = JSON.parse((await lines.next()).value);
const [middlewares, way] = process.argv.slice(2);

// redacted returns the text with its addresses replaced.
const redacted = (text) => (text.includes("@") ? text.replace(/[A-Za-z0-9._-]+@[A-Za-z0-9._-]+/g, "[address]") : text);

let run; // the result of the current run

// Instant is a stateless model that answers at once.
class Instant extends BaseChatModel {
	_llmType() {
		return "instant";
	}

	bindTools() {
		return this;
	}

	// next returns the model's answer to these messages: a text or a tool call.
	next(messages) {
		messages.forEach((m, i) => {
			if (m.tool_call_id === dangling && m.content === canceled && messages[i - 1].tool_calls?.length > 0) run.Mended++;
		});
		const results = messages.length - 1 - messages.findLastIndex((m) => m.type === "human");
		const step = messages.slice(messages.length - results).filter((m) => m.type === "tool").length;
		if (step >= calls.length) return { text: answer };
		return { text: "", call: { id: `call_${step}`, name: "search", args: calls[step] } };
	}

	async _generate(messages) {
		const { text, call } = this.next(messages);
		const tool_calls = call ? [{ ...call, args: JSON.parse(call.args), type: "tool_call" }] : [];
		return { generations: [{ text, message: new AIMessage({ content: text, tool_calls }) }] };
	}

	async *_streamResponseChunks(messages, _options, manager) {
		const { text, call } = this.next(messages);
		const pieces = call ? [""] : text.split(/(?<= )/);
		for (const piece of pieces) {
			const tool_call_chunks = call ? [{ ...call, index: 0, type: "tool_call_chunk" }] : [];
			const message = new AIMessageChunk({ content: piece, tool_call_chunks });
			const chunk = new ChatGenerationChunk({ text: piece, message });
			yield chunk;
			await manager?.handleLLMNewToken(piece, undefined, undefined, undefined, undefined, { chunk });
		}
	}
}

const search = tool(
	() => {
		run.Calls++;
		return found;
	},
	{ name: "search", description: "Searches the orders.", schema: z.object({ query: z.string().optional() }) },
);

const five = [
	createMiddleware({
		name: "patch",
		wrapModelCall: (request, handler) => {
			const answered = new Set(request.messages.filter((m) => m.type === "tool").map((m) => m.tool_call_id));
			const messages = [];
			for (const m of request.messages) {
				messages.push(m);
				for (const c of m.tool_calls ?? []) {
					if (!answered.has(c.id)) messages.push(new ToolMessage({ content: canceled, tool_call_id: c.id, name: c.name }));
				}
			}
			return handler({ ...request, messages });
		},
	}),
	createMiddleware({
		name: "observe",
		afterModel: () => {
			run.Counts.message = (run.Counts.message ?? 0) + 1;
		},
		wrapToolCall: async (request, handler) => {
			const result = await handler(request);
			run.Counts.tool_result = (run.Counts.tool_result ?? 0) + 1;
			return result;
		},
	}),
	createMiddleware({
		name: "redact",
		wrapModelCall: async (request, handler) => {
			const message = await handler(request);
			const text = redacted(message.text);
			if (text !== message.text) message.content = text;
			return message;
		},
		wrapToolCall: async (request, handler) => {
			const result = await handler(request);
			result.content = redacted(result.content);
			return result;
		},
	}),
	createMiddleware({
		name: "policy",
		wrapToolCall: (request, handler) => {
			const { id, name, args } = request.toolCall;
			if (name !== "delete" && !JSON.stringify(args).includes("/etc/")) return handler(request);
			return new ToolMessage({ content: "this is not allowed here", tool_call_id: id, name });
		},
	}),
	createMiddleware({
		name: "cache",
		wrapToolCall: async (request, handler) => {
			const { id, name, args } = request.toolCall;
			const { cache } = request.runtime.context;
			const key = `${name} ${JSON.stringify(args)}`;
			if (!cache.has(key)) cache.set(key, (await handler(request)).content);
			return new ToolMessage({ content: cache.get(key), tool_call_id: id, name });
		},
	}),
];

const agent = createAgent({
	model: new Instant({}),
	tools: [search],
	systemPrompt: "You know all orders.",
	contextSchema: z.object({ cache: z.any() }),
	middleware: middlewares === "five" ? five : [],
});

// message converts a message of the history to LangChain's form.
function message({ role, content, tool_calls = [] }) {
	if (role === "user") return new HumanMessage(content);
	const calls = tool_calls.map((c) => ({ id: c.id, name: c.function.name, args: JSON.parse(c.function.arguments) }));
	return new AIMessage({ content, tool_calls: calls });
}

const messages = history.map(message);

for await (const _ of lines) {
	run = { Text: "", Chunks: 0, Results: [], Calls: 0, Mended: 0, Counts: {} };
	const context = { cache: new Map() };
	const done = (m) => {
		if (m.type === "tool") run.Results.push(m.content);
		else run.Text = m.text;
	};
	if (way === "stream") {
		for await (const [mode, data] of await agent.stream({ messages }, { context, streamMode: ["messages", "updates"] })) {
			if (mode === "updates") Object.values(data).forEach((update) => update?.messages?.forEach(done));
			else if (data[0].type === "ai" && data[0].text) run.Chunks++;
		}
	} else {
		const { messages: all } = await agent.invoke({ messages }, { context });
		all.slice(messages.length).forEach(done);
	}
	console.log(JSON.stringify(run));
}
