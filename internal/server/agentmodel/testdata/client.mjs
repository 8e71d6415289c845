// Sends requests with OpenAI's official client, and prints each result as a line of JSON, one
// for each request in OPENAI_STEPS. {"messages": …} starts a conversation, and "results" has
// results of the tool calls in the last response.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.OPENAI_URL, apiKey: process.env.OPENAI_KEY ?? "ar_test", maxRetries: 0 });
let messages = [];
for (const { stream, results, ...step } of JSON.parse(process.env.OPENAI_STEPS)) {
  let out = {};
  try {
    if (step.messages) messages = step.messages;
    if (results) {
      const last = messages[messages.length - 1];
      for (const [i, content] of results.entries()) messages.push({ role: "tool", tool_call_id: last.tool_calls[i].id, content });
    }
    const request = { model: "agent", ...step, messages };
    let completion;
    if (stream) {
      const events = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
      const deltas = [];
      events.on("chunk", (c) => { for (const choice of c.choices) if (choice.delta.content) deltas.push(choice.delta.content); });
      completion = await events.finalChatCompletion();
      out.deltas = deltas;
    } else {
      completion = await client.chat.completions.create(request);
    }
    const { message, finish_reason } = completion.choices[0];
    messages.push(message);
    out = { ...out, id: completion.id, model: completion.model, message, finish_reason, usage: completion.usage, extra: completion.agent_runner };
  } catch (err) {
    out = { ...out, failed: err.message, status: err.status, code: err.code, type: err.type };
  }
  console.log(JSON.stringify(out));
}
