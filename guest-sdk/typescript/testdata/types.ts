// Code that the compiler must accept or reject. It is not executed.
import { allow, defineMiddleware, deny, HookError, textOf, textResult } from "@agent-runner/middleware";
import type { Messages, MessagesPatch } from "@agent-runner/middleware";

interface Config {
	deny: string[];
	keep?: number;
}

export default defineMiddleware<Config>({
	name: "types",
	version: "1.0.0",
	messages: "lazy",
	events: ["tool_result", "run_finished"],
	configSchema: { type: "object" },

	configure(input, ctx) {
		if (ctx.config.deny.length === 0) throw new HookError("deny is empty", { code: "invalid" });
		input.entry.toUpperCase();
	},
	beforeAgent(input, ctx) {
		if (input.run.step !== 0) return ctx.stop("odd", "step");
		return {
			instruction: input.instruction + "!",
			tools: { add: [{ name: "own", description: "a tool", parameters: { type: "object" } }], remove: ["x"] },
			messages: input.messages.append({ role: "user", content: "hello" }),
		};
	},
	beforeModelRewriteState(input, ctx) {
		const keep = ctx.config.keep ?? 10;
		return { messages: input.messages.slice(-keep), active: input.tools.filter((t) => t.active).map((t) => t.name) };
	},
	beforeModel(input) {
		const last = input.request.messages.at(-1);
		if (last !== undefined && textOf(last) === "ping") return { response: { message: { role: "assistant", content: "pong" } } };
		return { request: { model: "small", params: { temperature: 0, stop: null } } };
	},
	async wrapModel(input, ctx) {
		const response = await ctx.next(input.request.stream ? { params: { seed: 1 } } : undefined);
		return { response: { ...response, message: { ...response.message, content: "edited" } } };
	},
	onChunk: (input) => ({ chunks: input.chunks.map((c) => (c.kind === "text" ? { ...c, text: c.text.toUpperCase() } : c)) }),
	afterModel: (input) => (input.error?.retryable ? { again: { reason: "once more" } } : undefined),
	beforeTool: (input) => ({ arguments: JSON.stringify({ ...JSON.parse(input.call.arguments), safe: true }) }),
	wrapToolCall(_, ctx) {
		for (const chunks of ctx.nextStream()) ctx.send(chunks);
		const result = ctx.next({ arguments: "{}" });
		return { result: { ...result, is_error: false } };
	},
	gateTool: (input, ctx) => (ctx.config.deny.includes(input.call.name) ? deny("no") : allow()),
	callTool: (_, ctx) => ({ result: textResult(ctx.local.get<string>("answer") ?? "none") }),
	afterTools(input, ctx) {
		const n: number = ctx.local.add("rounds");
		ctx.emit("round", { n, calls: input.calls.length });
		ctx.log.info("round", n);
		return { messages: shorter(input.messages) };
	},
	observe(input) {
		for (const e of input.events) if (e.type === "tool_result") console.log(e.call?.name);
	},
});

function shorter(messages: Messages): MessagesPatch | undefined {
	return messages.rewrite((m) => (m.role === "tool" ? { ...m, content: textOf(m).slice(0, 100) } : undefined));
}

export const replies = defineMiddleware({
	wrapModel: (_, ctx) => ctx.next(),
	wrapToolCall: async (_, ctx) => ctx.next(),
	callTool: () => textResult("done"),
});

export const wrong = [
	// @ts-expect-error: no such hook
	defineMiddleware({ gateTol: () => allow() }),
	// @ts-expect-error: a decision is one of four strings
	defineMiddleware({ gateTool: () => ({ decision: "maybe" }) }),
	// @ts-expect-error: an answer is an object
	defineMiddleware({ beforeAgent: () => "hello" }),
	// @ts-expect-error: an instruction is a string
	defineMiddleware({ beforeAgent: () => ({ instruction: 1 }) }),
	// @ts-expect-error: only wrappers have next
	defineMiddleware({ beforeAgent: (_, ctx) => ctx.next() }),
	// @ts-expect-error: a message needs a role
	defineMiddleware({ beforeAgent: (input) => ({ messages: input.messages.append({ content: "x" }) }) }),
	// @ts-expect-error: messages are frozen
	defineMiddleware({ beforeAgent: (input) => void (input.messages.at(0)!.content = "x") }),
	// @ts-expect-error: no such property of the configuration
	defineMiddleware<Config>({ gateTool: (_, ctx) => (ctx.config.alow ? allow() : deny("")) }),
];
