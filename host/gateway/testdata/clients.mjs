// Runs tasks with each client, and prints a line of JSON for each: tasks with tools, with and without
// streams, and tasks that want an object.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import OpenAI from "openai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { ChatAnthropic } from "@langchain/anthropic";
import { ChatOpenAI } from "@langchain/openai";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool as agentTool } from "@openai/agents";
import { z } from "zod";

const url = process.env.GATEWAY_URL;
const apiKey = process.env.GATEWAY_KEY ?? "x";
const prompt = "Mail the weather to ann@example.com and delete the file a.";
const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false };
const shape = z.object({ name: z.string() });
const names = ["get_weather", "delete_file"];
const maxTurns = 5;

let ran = [];
const execute = (name) => (args) => {
	ran.push(`${name} ${args.name}`);
	return `sunny for ${args.name}`;
};
const task = async (name, fn) => {
	ran = [];
	try {
		console.log(JSON.stringify({ name, text: await fn(), ran }));
	} catch (e) {
		console.log(JSON.stringify({ name, failed: String(e), ran }));
	}
};
// object runs a task whose answer is an object, unless the script runs WITHOUT_OBJECTS.
const object = async (name, fn) => {
	if (!process.env.WITHOUT_OBJECTS) await task(`${name}, object`, async () => JSON.stringify(await fn()));
};

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
for (const stream of [false, true]) {
	const how = stream ? "stream" : "whole";
	await task(`openai chat, ${how}`, async () => {
		const tools = names.map((name) => ({
			type: "function",
			function: { name, function: execute(name), parse: JSON.parse, description: name, parameters: schema },
		}));
		return openai.chat.completions.runTools({ model: "m", stream, messages: [{ role: "user", content: prompt }], tools }).finalContent();
	});
	await task(`openai responses, ${how}`, async () => {
		const tools = names.map((name) => ({ type: "function", name, description: name, parameters: schema, strict: false }));
		let input = [{ role: "user", content: prompt }];
		for (let i = 0; i < maxTurns; i++) {
			const q = { model: "m", input, tools };
			const res = stream ? await openai.responses.stream(q).finalResponse() : await openai.responses.create(q);
			const calls = res.output.filter((o) => o.type === "function_call");
			if (calls.length === 0) return res.output.at(-1).content[0].text;
			const outputs = calls.map((c) => ({ type: "function_call_output", call_id: c.call_id, output: execute(c.name)(JSON.parse(c.arguments)) }));
			input = [...input, ...res.output, ...outputs];
		}
	});
	await task(`anthropic, ${how}`, async () => {
		const runner = anthropic.beta.messages.toolRunner({
			model: "m", stream, max_tokens: 100, messages: [{ role: "user", content: prompt }],
			tools: names.map((name) => betaTool({ name, description: name, inputSchema: schema, run: execute(name) })),
		});
		if (stream) for await (const turn of runner) for await (const _ of turn);
		return (await runner.runUntilDone()).content.at(-1).text;
	});
}

const tools = Object.fromEntries(names.map((name) => [name, tool({ description: name, inputSchema: shape, execute: execute(name) })]));
const aiOpenAI = createOpenAI({ baseURL: `${url}/v1`, apiKey });
for (const [name, model] of [
	["ai chat", aiOpenAI.chat("m")],
	["ai responses", aiOpenAI.responses("m")],
	["ai messages", createAnthropic({ baseURL: `${url}/v1`, apiKey })("m")],
]) {
	const q = { model, prompt, maxRetries: 0, maxOutputTokens: 100 };
	const steps = { ...q, tools, stopWhen: stepCountIs(maxTurns) };
	await task(`${name}, whole`, async () => (await generateText(steps)).text);
	await task(`${name}, stream`, async () => {
		const res = streamText({ ...steps, onError: ({ error }) => { throw error; } });
		let text = "";
		for await (const delta of res.textStream) text += delta;
		return text;
	});
	await object(name, async () => (await generateObject({ ...q, schema: shape })).object);
}

const overOpenAI = { model: "m", apiKey, maxRetries: 0, configuration: { baseURL: `${url}/v1` } };
for (const [name, model, method] of [
	["langchain chat", new ChatOpenAI(overOpenAI), "jsonSchema"],
	["langchain responses", new ChatOpenAI({ ...overOpenAI, useResponsesApi: true }), "jsonSchema"],
	["langchain messages", new ChatAnthropic({ model: "m", apiKey, maxRetries: 0, anthropicApiUrl: url }), "functionCalling"],
]) {
	const bound = model.bindTools(names.map((name) => ({ name, description: name, schema: shape })));
	const stream = async (messages) => {
		let all;
		for await (const chunk of await bound.stream(messages)) all = all ? all.concat(chunk) : chunk;
		return all;
	};
	for (const [how, ask] of [["whole", (messages) => bound.invoke(messages)], ["stream", stream]]) {
		await task(`${name}, ${how}`, async () => {
			const messages = [new HumanMessage(prompt)];
			for (let i = 0; i < maxTurns; i++) {
				const res = await ask(messages);
				if (!res.tool_calls?.length) return res.text;
				messages.push(res, ...res.tool_calls.map((c) => new ToolMessage({ tool_call_id: c.id, content: execute(c.name)(c.args) })));
			}
		});
	}
	await object(name, () => model.withStructuredOutput(shape, { method, name: "answer" }).invoke(prompt));
}

setTracingDisabled(true);
setDefaultOpenAIClient(openai);
for (const api of ["responses", "chat_completions"]) {
	setOpenAIAPI(api);
	for (const stream of [false, true]) {
		await task(`agents ${api}, ${stream ? "stream" : "whole"}`, async () => {
			const tools = names.map((name) => agentTool({ name, description: name, parameters: shape, execute: execute(name) }));
			const agent = new Agent({ name: "a", model: "m", instructions: "Help.", tools });
			const result = await run(agent, prompt, { maxTurns, stream });
			if (stream) await result.completed;
			return result.finalOutput;
		});
	}
}
