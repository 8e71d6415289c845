// Reads streams with OpenAI's official client, and prints what it received of each stream as a line of
// JSON. CHAT_NAMES lists the streams, which are below CHAT_URL.
import OpenAI from "openai";

for (const name of JSON.parse(process.env.CHAT_NAMES)) {
  const client = new OpenAI({ baseURL: `${process.env.CHAT_URL}/${name}`, apiKey: "key", maxRetries: 0 });
  const out = { name };
  try {
    const stream = client.chat.completions.stream({ model: "m", messages: [{ role: "user", content: "Hi" }] });
    const { message, finish_reason, logprobs } = (await stream.finalChatCompletion()).choices[0];
    Object.assign(out, { message, finish_reason, logprobs });
  } catch (err) {
    out.failed = err.message;
  }
  console.log(JSON.stringify(out));
}
