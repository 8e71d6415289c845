// Runs a task with two tools through OpenAI's and Anthropic's clients at each address, and prints a line of JSON for
// each.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const prompt = "Say the weather and delete the file a.";
const schema = { type: "object", properties: { name: { type: "string" } } };
const names = ["get_weather", "delete_file"];
const maxTurns = 5;

const chat = async (url, stream, execute) => {
	const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "x", maxRetries: 0 });
	const tools = names.map((name) => ({
		type: "function",
		function: { name, function: () => execute(name), parse: JSON.parse, description: name, parameters: schema },
	}));
	const messages = [{ role: "system", content: "Help." }, { role: "user", content: prompt }];
	const more = stream ? { stream, stream_options: { include_usage: true } } : {};
	const run = client.chat.completions.runTools({ model: "m", messages, tools, temperature: 0, ...more });
	const text = await run.finalContent();
	return { text, tokens: (await run.totalUsage()).total_tokens };
};

const responses = async (url, stream, execute) => {
	const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "x", maxRetries: 0 });
	const tools = names.map((name) => ({ type: "function", name, description: name, parameters: schema, strict: false }));
	let input = [{ role: "user", content: prompt }];
	let tokens = 0;
	for (let i = 0; i < maxTurns; i++) {
		const q = { model: "m", instructions: "Help.", input, tools };
		const res = stream ? await client.responses.stream(q).finalResponse() : await client.responses.create(q);
		tokens += res.usage.total_tokens;
		const calls = res.output.filter((o) => o.type === "function_call");
		if (calls.length === 0) return { text: res.output.at(-1).content[0].text, tokens };
		const results = calls.map((c) => ({ type: "function_call_output", call_id: c.call_id, output: execute(c.name) }));
		input = [...input, ...res.output, ...results];
	}
};

const messages = async (url, stream, execute) => {
	const client = new Anthropic({ baseURL: url, apiKey: "x", maxRetries: 0 });
	const tools = names.map((name) => ({ name, description: name, input_schema: schema }));
	const history = [{ role: "user", content: prompt }];
	let tokens = 0;
	for (let i = 0; i < maxTurns; i++) {
		const system = [{ type: "text", text: "Help.", cache_control: { type: "ephemeral" } }];
		const q = { model: "m", max_tokens: 100, system, messages: history, tools };
		const res = stream ? await client.messages.stream(q).finalMessage() : await client.messages.create(q);
		tokens += res.usage.input_tokens + res.usage.output_tokens;
		const calls = res.content.filter((b) => b.type === "tool_use");
		if (calls.length === 0) return { text: res.content.at(-1).text, tokens };
		history.push({ role: "assistant", content: res.content });
		history.push({
			role: "user",
			content: calls.map((c) => ({ type: "tool_result", tool_use_id: c.id, content: execute(c.name) })),
		});
	}
};

for (const [setting, url] of Object.entries(JSON.parse(process.env.GATEWAYS))) {
	for (const [client, task] of Object.entries({ chat, responses, messages })) {
		for (const stream of [false, true]) {
			const ran = [];
			const execute = (name) => {
				ran.push(name);
				return "sunny";
			};
			try {
				console.log(JSON.stringify({ setting, client, stream, ...(await task(url, stream, execute)), ran }));
			} catch (e) {
				console.log(JSON.stringify({ setting, client, stream, failed: String(e), ran }));
			}
		}
	}
}
