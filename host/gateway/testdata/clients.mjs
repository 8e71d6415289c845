// Runs a task with a tool through each client, and prints a line of JSON for each.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { ChatAnthropic } from "@langchain/anthropic";
import { ChatOpenAI } from "@langchain/openai";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool as agentTool } from "@openai/agents";
import { z } from "zod";

const url = process.env.GATEWAY_URL;
const apiKey = process.env.GATEWAY_KEY ?? "x";
const prompt = "Mail the weather to ann@example.com and delete the file a.";
const schema = { type: "object", properties: { name: { type: "string" } } };
const names = ["get_weather", "delete_file"];
const maxTurns = 5;

let ran = [];
const execute = (name) => () => {
	ran.push(name);
	return "sunny";
};
const task = async (name, fn) => {
	ran = [];
	try {
		console.log(JSON.stringify({ name, text: await fn(), ran }));
	} catch (e) {
		console.log(JSON.stringify({ name, failed: String(e), ran }));
	}
};

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
for (const stream of [false, true]) {
	await task(`openai chat, stream ${stream}`, async () => {
		const functions = names.map((name) => ({
			type: "function",
			function: { name, function: execute(name), parse: JSON.parse, description: name, parameters: schema },
		}));
		return openai.chat.completions.runTools({ model: "m", stream, messages: [{ role: "user", content: prompt }], tools: functions }).finalContent();
	});
	await task(`openai responses, stream ${stream}`, async () => {
		const tools = names.map((name) => ({ type: "function", name, description: name, parameters: schema, strict: false }));
		let input = [{ role: "user", content: prompt }];
		for (let i = 0; i < maxTurns; i++) {
			const q = { model: "m", input, tools };
			const res = stream ? await openai.responses.stream(q).finalResponse() : await openai.responses.create(q);
			const calls = res.output.filter((o) => o.type === "function_call");
			if (calls.length === 0) return res.output_text ?? res.output.at(-1).content[0].text;
			input = [...input, ...res.output, ...calls.map((c) => ({ type: "function_call_output", call_id: c.call_id, output: execute(c.name)() }))];
		}
	});
	await task(`anthropic, stream ${stream}`, async () => {
		const client = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
		const tools = names.map((name) => ({ name, description: name, input_schema: schema }));
		const messages = [{ role: "user", content: prompt }];
		for (let i = 0; i < maxTurns; i++) {
			const q = { model: "m", max_tokens: 100, messages, tools };
			const res = stream ? await client.messages.stream(q).finalMessage() : await client.messages.create(q);
			if (res.stop_reason !== "tool_use") return res.content.at(-1).text;
			messages.push({ role: "assistant", content: res.content });
			const calls = res.content.filter((b) => b.type === "tool_use");
			messages.push({ role: "user", content: calls.map((c) => ({ type: "tool_result", tool_use_id: c.id, content: execute(c.name)() })) });
		}
	});
}

const sdkTools = Object.fromEntries(
	names.map((name) => [name, tool({ description: name, inputSchema: z.object({ name: z.string().optional() }), execute: execute(name) })]),
);
const aiOpenAI = createOpenAI({ baseURL: `${url}/v1`, apiKey });
const aiAnthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey });
for (const [name, model] of [
	["ai chat", aiOpenAI.chat("m")],
	["ai responses", aiOpenAI.responses("m")],
	["ai messages", aiAnthropic("m")],
]) {
	const q = { model, prompt, tools: sdkTools, stopWhen: stepCountIs(maxTurns), maxRetries: 0, maxOutputTokens: 100 };
	await task(`${name}, generateText`, async () => (await generateText(q)).text);
	await task(`${name}, streamText`, async () => {
		const res = streamText({ ...q, onError() {} });
		return await res.text;
	});
}

for (const [name, model] of [
	["langchain chat", new ChatOpenAI({ model: "m", apiKey, maxRetries: 0, configuration: { baseURL: `${url}/v1` } })],
	["langchain messages", new ChatAnthropic({ model: "m", apiKey, maxRetries: 0, anthropicApiUrl: url })],
]) {
	const bound = model.bindTools(names.map((n) => ({ name: n, description: n, schema: z.object({ name: z.string().optional() }) })));
	const collect = async (messages) => {
		let all;
		for await (const chunk of await bound.stream(messages)) all = all ? all.concat(chunk) : chunk;
		return all;
	};
	for (const [how, ask] of [["invoke", (messages) => bound.invoke(messages)], ["stream", collect]]) {
		await task(`${name}, ${how}`, async () => {
			const messages = [new HumanMessage(prompt)];
			for (let i = 0; i < maxTurns; i++) {
				const res = await ask(messages);
				if (!res.tool_calls?.length) return res.text;
				messages.push(res, ...res.tool_calls.map((c) => new ToolMessage({ tool_call_id: c.id, content: execute(c.name)() })));
			}
		});
	}
}

setTracingDisabled(true);
setDefaultOpenAIClient(openai);
for (const api of ["responses", "chat_completions"]) {
	setOpenAIAPI(api);
	await task(`agents, ${api}`, async () => {
		const tools = names.map((name) =>
			agentTool({ name, description: name, parameters: z.object({ name: z.string() }), execute: execute(name) }),
		);
		const agent = new Agent({ name: "a", model: "m", instructions: "Help.", tools });
		return (await run(agent, prompt, { maxTurns })).finalOutput;
	});
}
