// Talks to an agent over several turns with each client, each of which sends only what is new, and
// prints a line of JSON with the answers of each. The second turn calls a tool of the client.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { HttpAgent } from "@ag-ui/client";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool as agentTool } from "@openai/agents";
import { z } from "zod";

const url = process.env.SERVER_URL;
const apiKey = process.env.SERVER_KEY;
const turns = ["one", "weather", "three"];
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const shape = z.object({ city: z.string() });
const execute = ({ city }) => `sunny in ${city}`;

const thread = async () => {
	const res = await fetch(`${url}/v1/threads`, {
		method: "POST", body: "{}", headers: { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" },
	});
	return (await res.json()).id;
};
const talk = async (name, say) => {
	const answers = [];
	try {
		for (const text of turns) answers.push(await say(text));
		console.log(JSON.stringify({ name, answers }));
	} catch (e) {
		console.log(JSON.stringify({ name, answers, failed: String(e) }));
	}
};

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
for (const stream of [false, true]) {
	let previous;
	await talk(`openai responses, ${stream ? "stream" : "whole"}`, async (text) => {
		let input = text;
		for (;;) {
			const q = {
				model: "m", input, previous_response_id: previous, instructions: "Count.",
				tools: [{ type: "function", name: "get_weather", parameters: schema, strict: false }],
			};
			const res = stream ? await openai.responses.stream(q).finalResponse() : await openai.responses.create(q);
			previous = res.id;
			const calls = res.output.filter((o) => o.type === "function_call");
			if (!calls.length) return res.output.at(-1).content[0].text;
			input = calls.map((c) => ({ type: "function_call_output", call_id: c.call_id, output: execute(JSON.parse(c.arguments)) }));
		}
	});
}

const conversation = await thread();
await talk("openai conversation", async (text) =>
	(await openai.responses.create({ model: "m", input: text.replace("weather", "two"), instructions: "Count.", conversation })).output_text);

const chat = { headers: { "X-Thread": await thread() } };
await talk("openai chat", async (text) => {
	const tools = [{ type: "function", function: { name: "get_weather", function: execute, parse: JSON.parse, parameters: schema } }];
	const messages = [{ role: "system", content: "Count." }, { role: "user", content: text }];
	return openai.chat.completions.runTools({ model: "m", messages, tools }, chat).finalContent();
});

const anthropic = new Anthropic({ baseURL: url, apiKey, maxRetries: 0, defaultHeaders: { "X-Thread": await thread() } });
await talk("anthropic", async (text) => {
	const q = { model: "m", max_tokens: 100, system: "Count.", messages: [{ role: "user", content: text.replace("weather", "two") }] };
	return (await anthropic.messages.create(q)).content[0].text;
});

const ai = createOpenAI({ baseURL: `${url}/v1`, apiKey });
const tools = { get_weather: tool({ inputSchema: shape, execute }) };
const steps = { system: "Count.", tools, stopWhen: stepCountIs(5), maxRetries: 0 };
let previousResponseId;
await talk("ai responses", async (prompt) => {
	const providerOptions = previousResponseId ? { openai: { previousResponseId } } : {};
	const res = await generateText({ ...steps, model: ai.responses("m"), prompt, providerOptions });
	previousResponseId = res.providerMetadata.openai.responseId;
	return res.text;
});
const headers = { "X-Thread": await thread() };
await talk("ai chat", async (prompt) => (await generateText({ ...steps, model: ai.chat("m"), prompt, headers })).text);

setTracingDisabled(true);
setDefaultOpenAIClient(openai);
setOpenAIAPI("responses");
const counter = new Agent({
	name: "a", model: "m", instructions: "Count.",
	tools: [agentTool({ name: "get_weather", description: "weather", parameters: shape, execute })],
});
let last;
await talk("agents", async (text) => {
	const result = await run(counter, text, { previousResponseId: last });
	last = result.lastResponseId;
	return result.finalOutput;
});

// A front end that keeps its messages, and one that has lost them before each turn.
const frontEnd = [{ name: "get_weather", description: "weather", parameters: schema }];
for (const forgets of [false, true]) {
	let agent;
	await talk(`ag-ui${forgets ? ", without a history" : ""}`, async (text) => {
		if (forgets || !agent) {
			agent = new HttpAgent({ url: `${url}/v1/agents/m/agui`, threadId: `t-${forgets}`, headers: { Authorization: `Bearer ${apiKey}` } });
		}
		if (text === turns[0]) agent.addMessage({ id: crypto.randomUUID(), role: "system", content: "Count." });
		agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
		for (;;) {
			await agent.runAgent({ tools: frontEnd });
			const message = agent.messages.at(-1);
			if (!message.toolCalls?.length) return message.content;
			for (const call of message.toolCalls) {
				agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: execute(JSON.parse(call.function.arguments)) });
			}
		}
	});
}
