// Runs an agent with OpenAI's official client, once with streams and once without. The model may call
// two tools: read returns a text, remove makes a file, whose path is in REMOVED. Each line of the
// output is the result of one run.
import fs from "node:fs";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.CHAT_URL, apiKey: "key-of-client", maxRetries: 0 });
for (const stream of [true, false]) {
  const reads = [];
  const tool = (name, run) => ({
    type: "function",
    function: { name, parse: JSON.parse, function: run, parameters: { type: "object", properties: { path: { type: "string" } } } },
  });
  const runner = client.chat.completions.runTools({
    model: "m-1",
    stream,
    messages: [{ role: "user", content: "Tidy the files of bob@example.org." }],
    tools: [
      tool("read", ({ path }) => { reads.push(path); return "The owner is bob@example.org."; }),
      tool("remove", ({ path }) => { fs.writeFileSync(process.env.REMOVED, path); return "removed"; }),
    ],
  });
  const text = await runner.finalContent();
  const said = runner.messages.filter((m) => m.role === "assistant").map((m) => m.content);
  console.log(JSON.stringify({ stream, reads, said, text }));
}
