// Runs an agent with several clients of chat completions, with streams and without. The model may call
// two tools: read returns a text, remove makes a file, whose path is in REMOVED. Each line of the
// output is the result of one run. The runs called "object" ask for JSON instead.
import fs from "node:fs";
import OpenAI from "openai";
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { ChatOpenAI } from "@langchain/openai";

const url = process.env.CHAT_URL, model = "m-1", prompt = "Tidy the files of bob@example.org.";
const path = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
const owner = { type: "object", properties: { owner: { type: "string" } }, required: ["owner"], additionalProperties: false };
let reads;
const tools = {
  read: ({ path }) => { reads.push(path); return "The owner is bob@example.org."; },
  remove: ({ path }) => { fs.writeFileSync(process.env.REMOVED, path); return "removed"; },
};

async function openai(stream) {
  const client = new OpenAI({ baseURL: url, apiKey: "key-of-client", maxRetries: 0 });
  const runner = client.chat.completions.runTools({
    model, stream, messages: [{ role: "user", content: prompt }],
    tools: Object.entries(tools).map(([name, run]) =>
      ({ type: "function", function: { name, parse: JSON.parse, function: run, parameters: path } })),
  });
  return { text: await runner.finalContent() };
}

const vercel = createOpenAI({ baseURL: url, apiKey: "key-of-client" }).chat(model);

async function ai(stream) {
  const request = {
    model: vercel, prompt, maxRetries: 0, stopWhen: stepCountIs(4),
    tools: Object.fromEntries(Object.entries(tools).map(([name, execute]) =>
      [name, tool({ inputSchema: jsonSchema(path), execute })])),
  };
  if (!stream) return { text: (await generateText(request)).text };
  const result = streamText({ ...request, onError: ({ error }) => { throw error; } });
  let deltas = "";
  for await (const delta of result.textStream) deltas += delta;
  return { text: await result.text, deltas };
}

async function aiObject() {
  return generateObject({ model: vercel, prompt, maxRetries: 0, schema: jsonSchema(owner) }).then((r) => ({ object: r.object }));
}

const langchain = new ChatOpenAI({ model, apiKey: "key-of-client", maxRetries: 0, configuration: { baseURL: url } });

async function lang(stream) {
  const agent = langchain.bindTools(Object.keys(tools).map((name) => ({ type: "function", function: { name, parameters: path } })));
  const messages = [{ role: "user", content: prompt }];
  for (;;) {
    let answer;
    if (stream) for await (const chunk of await agent.stream(messages)) answer = answer ? answer.concat(chunk) : chunk;
    else answer = await agent.invoke(messages);
    if (!answer.tool_calls.length) return { text: answer.content };
    messages.push(answer);
    for (const call of answer.tool_calls) messages.push({ role: "tool", tool_call_id: call.id, content: tools[call.name](call.args) });
  }
}

async function langObject() {
  return { object: await langchain.withStructuredOutput(owner, { method: "jsonSchema" }).invoke(prompt) };
}

for (const [client, run, ...args] of [
  ["openai", openai, true], ["openai", openai, false],
  ["ai", ai, true], ["ai", ai, false], ["ai object", aiObject],
  ["langchain", lang, true], ["langchain", lang, false], ["langchain object", langObject],
]) {
  reads = [];
  const result = await run(...args);
  console.log(JSON.stringify({ client, stream: args[0], reads, ...result }));
}
