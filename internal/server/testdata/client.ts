import { Client, type Event, ProblemError, type Run } from "@agent-runner/client";

const client = new Client({ baseUrl: process.env.AGENT_RUNNER_SERVER, key: process.env.AGENT_RUNNER_KEY });

function expect(what: string, got: unknown, want: unknown): void {
	if (JSON.stringify(got) !== JSON.stringify(want)) {
		throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
	}
}

// A response has one type, not one of several.
const run: Run = await client.request("post", "/v1/runs", { body: { agent: "clerk", input: "Hello", metadata: { customer: "c 1&2" } } });
const events: Event[] = [];
for await (const event of client.events(run.id)) events.push(event);
expect("sequence", events.map((e) => e.seq), events.map((_, i) => i + 1));
expect("last event", events.at(-1)?.type, "run_finished");

const rest: number[] = [];
for await (const event of client.events(run.id, { after: 2 })) rest.push(event.seq);
expect("resumed", rest, events.slice(2).map((e) => e.seq));

// A connection that breaks after each few bytes yields each event once.
let requests = 0;
const flaky = new Client({
	baseUrl: process.env.AGENT_RUNNER_SERVER,
	key: process.env.AGENT_RUNNER_KEY,
	fetch: async (...args) => {
		const response = await fetch(...args);
		if (response.status !== 200 || ++requests % 2 === 0) return response;
		const text = await response.text();
		let sent = 0;
		const body = new ReadableStream<Uint8Array>({
			pull(controller) {
				if (sent > 0) return controller.error(new TypeError("network error"));
				controller.enqueue(new TextEncoder().encode(text.slice(0, (sent = text.length / 2))));
			},
		});
		return new Response(body, { status: 200, headers: response.headers });
	},
});
const seen: number[] = [];
for await (const event of flaky.events(run.id)) seen.push(event.seq);
expect("events of a broken connection", seen, events.map((e) => e.seq));
if (requests < 2) throw new Error("the connection did not break");

const found: string[] = [];
for await (const r of client.runs({ limit: 1, status: ["finished"], metadata: { customer: "c 1&2" }, faults: false })) found.push(r.id);
expect("runs", found, [run.id]);
for await (const agent of client.list("/v1/agents", { query: { limit: 1 } })) {
	const name: string = agent.name;
	if (!name) throw new Error("an agent without a name");
}

const again = { idempotencyKey: "once" };
const first = await client.startRun({ agent: "clerk", input: "Twice" }, again);
expect("repeated request", (await client.startRun({ agent: "clerk", input: "Twice" }, again)).id, first.id);
for await (const _ of client.events(first.id)) {}

const series = await client.request("get", "/v1/series", { query: { by: "agent", bucket: "day" } });
expect("series", series.groups[0]?.total.runs, 2);
const nothing: undefined = await client.request("delete", "/v1/runs/{run}", { path: { run: run.id } });
expect("deleted", nothing, undefined);
try {
	await client.request("get", "/v1/runs/{run}", { path: { run: run.id } });
	throw new Error("the run was not deleted");
} catch (error) {
	if (!(error instanceof ProblemError)) throw error;
	expect("problem", [error.status, error.code, error.problem.title], [404, "not-found", "Not found"]);
}
const stop = AbortSignal.abort(new Error("stopped"));
try {
	for await (const _ of client.events(first.id, { signal: stop })) throw new Error("it goes on");
} catch (error) {
	expect("aborted", (error as Error).message, "stopped");
}
console.log("ok");
