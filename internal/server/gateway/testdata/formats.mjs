// Asks for an object with each client that supports structured output, and prints a line of JSON for each.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, streamObject } from "ai";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled } from "@openai/agents";
import { z } from "zod";

const url = process.env.GATEWAY_URL;
const apiKey = process.env.GATEWAY_KEY;
const schema = z.object({ city: z.string() });
const json = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };

const task = async (name, fn) => {
	try {
		console.log(JSON.stringify({ name, object: await fn() }));
	} catch (e) {
		console.log(JSON.stringify({ name, failed: String(e) }));
	}
};

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
for (const prompt of ["Which city?", "Answer wrong."]) {
	const messages = [{ role: "user", content: prompt }];
	await task(`openai chat: ${prompt}`, async () => {
		const res = await openai.chat.completions.parse({ model: "m", messages, response_format: zodResponseFormat(schema, "city") });
		return res.choices[0].message.parsed;
	});
	await task(`openai responses: ${prompt}`, async () => {
		const res = await openai.responses.parse({ model: "m", input: messages, text: { format: zodTextFormat(schema, "city") } });
		return res.output_parsed;
	});
	await task(`anthropic: ${prompt}`, async () => {
		const format = { type: "json_schema", schema: json };
		const res = await anthropic.messages.create({ model: "m", max_tokens: 100, messages, output_config: { format } });
		return JSON.parse(res.content[0].text);
	});
}

const aiOpenAI = createOpenAI({ baseURL: `${url}/v1`, apiKey });
const aiAnthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey });
for (const [name, model] of [
	["ai chat", aiOpenAI.chat("m")],
	["ai responses", aiOpenAI.responses("m")],
]) {
	await task(`${name}, generateObject`, async () => (await generateObject({ model, schema, prompt: "Which city?", maxRetries: 0 })).object);
}
await task("ai chat, streamObject", async () => {
	let last;
	for await (const part of streamObject({ model: aiOpenAI.chat("m"), schema, prompt: "Which city?", onError() {} }).partialObjectStream) last = part;
	return last;
});

const chat = new ChatOpenAI({ model: "m", apiKey, maxRetries: 0, configuration: { baseURL: `${url}/v1` } });
await task("langchain, withStructuredOutput", () => chat.withStructuredOutput(schema, { method: "jsonSchema" }).invoke("Which city?"));

setTracingDisabled(true);
setDefaultOpenAIClient(openai);
for (const api of ["responses", "chat_completions"]) {
	setOpenAIAPI(api);
	await task(`agents, ${api}`, async () => {
		const agent = new Agent({ name: "a", model: "m", instructions: "Help.", outputType: schema });
		return (await run(agent, "Which city?", { maxTurns: 2 })).finalOutput;
	});
}
