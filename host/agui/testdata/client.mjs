// Follows runs with the official client, and prints what it made of them: a
// line of JSON for each, with the types of the events and all messages.
// Steps: {"say": text} adds a message and runs, {"resume": {id: payload}} answers.
import { HttpAgent } from "@ag-ui/client";

const [url, steps] = [process.env.AGUI_URL, JSON.parse(process.env.AGUI_STEPS)];
const agent = new HttpAgent({ url, threadId: "thread-1" });
for (const step of steps) {
  const events = [];
  let failed;
  if (step.say) agent.addMessage({ id: "u" + agent.messages.length, role: "user", content: step.say });
  const parameters = { runId: "run-" + agent.messages.length };
  if (step.answer) {
    parameters.resume = agent.pendingInterrupts.map((i) => ({ interruptId: i.id, status: "resolved", payload: step.answer }));
  }
  try {
    await agent.runAgent(parameters, {
      onEvent: ({ event }) => { events.push(event); },
      onRunErrorEvent: ({ event }) => { failed = event.message; },
    });
  } catch (err) {
    failed = failed ?? String(err.message ?? err);
  }
  console.log(JSON.stringify({ events, messages: agent.messages, failed, pending: agent.pendingInterrupts }));
}
