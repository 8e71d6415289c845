// Runs an agent with several clients of the Messages API, with streams and without. The model may call
// two tools: read returns a text, remove makes a file, whose path is in REMOVED. Each line of the output
// is the result of one run. The runs called "object" ask for an object instead.
import fs from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { ChatAnthropic } from "@langchain/anthropic";

const url = process.env.MESSAGES_URL, model = "m-1", prompt = "Tidy the files of bob@example.org.";
const path = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
const owner = { type: "object", properties: { owner: { type: "string" } }, required: ["owner"] };
let reads;
const tools = {
  read: ({ path }) => { reads.push(path); return "The owner is bob@example.org."; },
  remove: ({ path }) => { fs.writeFileSync(process.env.REMOVED, path); return "removed"; },
};

async function anthropic(stream) {
  const client = new Anthropic({ baseURL: url, apiKey: "key-of-client", maxRetries: 0 });
  const runner = client.beta.messages.toolRunner({
    model, stream, max_tokens: 100, messages: [{ role: "user", content: prompt }],
    tools: Object.entries(tools).map(([name, run]) => betaTool({ name, description: name, inputSchema: path, run })),
  });
  if (stream) for await (const turn of runner) for await (const _ of turn);
  const answer = await runner.runUntilDone();
  return { text: answer.content.at(-1).text };
}

const vercel = createAnthropic({ baseURL: url + "/v1", apiKey: "key-of-client" })(model);

async function ai(stream) {
  const request = {
    model: vercel, prompt, maxRetries: 0, maxOutputTokens: 100, stopWhen: stepCountIs(4),
    tools: Object.fromEntries(Object.entries(tools).map(([name, execute]) =>
      [name, tool({ inputSchema: jsonSchema(path), execute })])),
  };
  if (!stream) return { text: (await generateText(request)).text };
  return { text: await streamText({ ...request, onError: ({ error }) => { throw error; } }).text };
}

async function aiObject() {
  const { object } = await generateObject({ model: vercel, prompt, maxRetries: 0, maxOutputTokens: 100, schema: jsonSchema(owner) });
  return { object };
}

const langchain = new ChatAnthropic({ model, apiKey: "key-of-client", anthropicApiUrl: url, maxRetries: 0, maxTokens: 100 });

async function lang(stream) {
  const agent = langchain.bindTools(Object.keys(tools).map((name) => ({ name, description: name, input_schema: path })));
  const messages = [{ role: "user", content: prompt }];
  for (;;) {
    let answer;
    if (stream) for await (const chunk of await agent.stream(messages)) answer = answer ? answer.concat(chunk) : chunk;
    else answer = await agent.invoke(messages);
    if (!answer.tool_calls.length) return { text: answer.text };
    messages.push(answer);
    for (const call of answer.tool_calls) messages.push({ role: "tool", tool_call_id: call.id, content: tools[call.name](call.args) });
  }
}

async function langObject() {
  return { object: await langchain.withStructuredOutput(owner).invoke(prompt) };
}

for (const [client, run, ...args] of [
  ["anthropic", anthropic, true], ["anthropic", anthropic, false],
  ["ai", ai, true], ["ai", ai, false], ["ai object", aiObject],
  ["langchain", lang, true], ["langchain", lang, false], ["langchain object", langObject],
]) {
  reads = [];
  const result = await run(...args);
  console.log(JSON.stringify({ client, stream: args[0], reads, ...result }));
}
