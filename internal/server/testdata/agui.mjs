// Runs an agent with AG-UI's official client: a front end with a tool of its own. It prints the
// final messages.
import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({ url: process.env.AGUI_URL, threadId: "thread-1", headers: { Authorization: `Bearer ${process.env.AGUI_KEY}` } });
const tools = [{ name: "show", description: "shows a text", parameters: { type: "object", properties: { text: { type: "string" } } } }];
const events = [];
const watch = { onEvent: ({ event }) => { events.push(event.type); } };
agent.addMessage({ id: "u1", role: "user", content: "Show it" });
await agent.runAgent({ runId: "r1", tools }, watch);
const call = agent.messages.flatMap((m) => m.toolCalls ?? []).find((c) => c.function.name === "show");
agent.addMessage({ id: "t1", role: "tool", toolCallId: call.id, content: "it is shown" });
await agent.runAgent({ runId: "r2", tools }, watch);
console.log(JSON.stringify({ events, messages: agent.messages }));
