// Uses the pages of replays and rollouts as a person would, with made-up data. testdata/walk.mjs uses them with a
// server that replays and rolls back.
import assert from "node:assert/strict";

const bad = "<img src=x onerror=\"document.title='owned'\">";
const ago = (minutes) => new Date(Date.now() - minutes * 60000).toISOString();
const hook = (entry, name, before, after, more = {}) => ({ step: 1, entry, hook: name, before: { calls: 1, fuel: 122000, ...before }, after: { calls: 1, fuel: 138000, ...after }, changed_answers: 1, changed_texts: 1, ...more });
const side = (steps, denials, faults, fuel) => ({ steps, denials, faults, fuel });

// results are those of a replay: some runs change, fail, or cannot be replayed.
const results = Array.from({ length: 24 }, (_, i) => {
  const base = { number: i + 1, run: `run_${i}`, outcome: "same", version: 3, before: side(2, 0, 0, 270000), after: side(2, 0, 0, 281000) };
  const deny = hook("refund-guard", "gate_tool", { decisions: { allow: 1 } }, { decisions: { deny: 1 } });
  const decision = { kind: "decision", step: 1, before: "refund-guard decides allow for refund", after: "refund-guard decides deny for refund: refunds above 500 need a person" };
  if (i % 6 === 1) {
    return { ...base, outcome: "diverged", hooks: [deny, hook("redact", "before_agent", {}, {}, { changed_answers: 0, changed_texts: 0 })], after: side(2, 1, 0, 284000), reason: "",
      changes: [decision, { kind: "request", step: 2, before: "  tool: 640 EUR were paid back", after: "  tool: refunds above 500 need a person" }, { kind: "end", step: 2, before: "ends: stop: I have paid back 640 EUR.", after: `ends: stop: A colleague will look at it. ${bad}` }] };
  }
  if (i % 6 === 3) return { ...base, outcome: "different", hooks: [hook("redact", "after_model", {}, {})], changes: [{ kind: "message", step: 2, before: "message: Write to ann@example.com", after: "message: Write to [address]" }] };
  if (i === 8) return { ...base, outcome: "failed", hooks: [hook("refund-guard", "gate_tool", {}, { faults: 1 })], after: side(1, 0, 1, 90000), changes: [{ kind: "fault", step: 1, after: "refund-guard faults in gate_tool: limit is not a number (fail)" }, { kind: "end", step: 1, before: "ends: stop: Done.", after: "ends: error: middleware: limit is not a number" }] };
  if (i >= 22) return { ...base, outcome: "skipped", version: 1, reason: "a version of its agent was deleted", before: side(0, 0, 0, 0), after: side(0, 0, 0, 0) };
  return base;
});
const counts = (list) => Object.fromEntries(["same", "different", "diverged", "failed", "skipped"].map((o) => [o, list.filter((x) => x.outcome === o).length]));
const replay = (more, list = results) => ({ id: "rp_made", agent: "archivist", status: "finished", candidate: { version: 2 }, total: results.length, done: list.length, ...counts(list), by: "user ann@example.com", created: ago(3), updated: ago(2), ended: ago(2), ...more });

const arm = (runs, denials, p95, tokens) => ({ runs, faults: 0.004, denials, errors: 0.002, p95_ms: p95, tokens });
const plan = { by: "run", steps: [{ percent: 10, seconds: 600 }, { percent: 50, seconds: 600 }, { percent: 100, seconds: 600 }], rollback: { window_seconds: 3600, min_runs: 20, increase: { faults: 0.02, denials: 0.05, errors: 0.02, latency: 0.5, cost: 0.5 } } };
const rollout = (more) => ({ id: "ro_made", agent: "archivist", alias: "stable", stable: 1, canary: 2, status: "running", plan, step: 1, percent: 10, since: ago(7), figures: { stable: arm(412, 0.012, 1840, 812), canary: arm(45, 0.089, 1910, 846) }, by: "user ann@example.com", created: ago(7), updated: ago(0), ...more });
const history = () => ({ bucket_seconds: 60, points: Array.from({ length: 8 }, (_, i) => ({ time: ago(7 - i), stable: arm(50 + ((i * 7) % 9), 0.01 + 0.004 * (i % 3), 1800 + 30 * (i % 4), 805 + 3 * i), canary: arm(5 + (i % 3), 0.02 * i, 1850 + 40 * (i % 3), 840 + 2 * i) })) });

// releases visits the pages, with their states.
export async function releases({ page, title, shot, open, told }) {
  const answers = new Map();
  const routed = /\/v1\/(replays|rollouts|agents\/archivist\/(replays|rollouts|aliases))\b/;
  await page.route(routed, async (route) => {
    const at = new URL(route.request().url()).pathname;
    const answer = answers.get(`${route.request().method()} ${at}`);
    return answer === undefined ? route.fallback() : route.fulfill({ json: typeof answer === "function" ? answer(route.request().postDataJSON()) : answer });
  });
  const say = (at, answer) => answers.set(at.includes(" ") ? at : `GET ${at}`, answer);

  // Without a replay, the page says what to do.
  await open("Replay before rollout");
  await page.getByText("No replays yet").waitFor();
  await page.getByRole("link", { name: "Try a version" }).first().click();
  await title("Try a version on stored runs");
  await page.getByLabel("Agent", { exact: true }).selectOption("archivist");
  await page.getByLabel("One module, replaced").check();
  await page.getByLabel("Instead of the entry").selectOption("mask");
  await shot("try", "try");
  await page.getByLabel("A version of the agent").check();
  await page.getByLabel("Version", { exact: true }).selectOption("2");
  await page.getByLabel("The last runs").fill("24");
  const sent = [];
  say("POST /v1/agents/archivist/replays", (body) => sent.push(body) && replay({ status: "queued", ended: undefined }, []));
  say("/v1/replays/rp_made", replay({ status: "queued", ended: undefined }, []));
  say("/v1/replays/rp_made/runs", { runs: [] });
  await page.getByRole("button", { name: "Start the replay" }).click();
  await title("archivist, version 2");
  assert.deepEqual(sent, [{ version: 2, runs: { limit: 24 } }]);
  await page.getByText("Waiting for a server that is free.").waitFor();

  // The replay proceeds, and ends.
  say("/v1/replays/rp_made", replay({ status: "running", ended: undefined }, results.slice(0, 9)));
  say("/v1/replays/rp_made/runs", { runs: results.slice(0, 9) });
  await page.clock.fastForward(1000);
  await page.getByText("9 of 24 runs replayed").waitFor();
  await page.getByRole("heading", { name: "3 of 9 runs would end differently" }).waitFor();
  say("/v1/replays/rp_made", replay({}));
  say("/v1/replays/rp_made/runs", { runs: results });
  await page.clock.fastForward(1000);
  await page.getByRole("heading", { name: "5 of 22 runs would end differently" }).waitFor();
  await page.getByRole("region", { name: "Where runs begin to differ" }).getByRole("row", { name: "refund-guard gate_tool 1 5" }).waitFor();
  const all = page.getByRole("region", { name: "Before and after, in all runs" });
  await all.getByRole("row", { name: "Denied tool calls 0 4 new in 4 runs" }).waitFor();
  await all.getByRole("row", { name: "Faults 0 1 new in 1 run" }).waitFor();
  const detail = page.getByRole("region", { name: "Before and after", exact: true });
  await detail.locator("ins", { hasText: "deny" }).waitFor();
  await detail.getByText(bad).waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  await shot("replay", "replay");
  await detail.getByText("Hooks that differ").click();
  await detail.getByRole("row", { name: /refund-guard gate_tool 1 1 allow → deny/ }).waitFor();

  // Runs are chosen with the keyboard, and stay chosen after a reload.
  await page.getByRole("button", { name: /^1\s*Failed/ }).press("Enter");
  await detail.getByText("limit is not a number").first().waitFor();
  await page.getByRole("button", { name: /^4\s*Changed/ }).press("Enter");
  await page.locator(".runlist").getByRole("button").nth(1).press("Enter");
  await page.locator(".runlist [aria-current]").getByText("run_9").waitFor();
  await page.reload();
  await page.locator(".runlist [aria-current]").getByText("run_9").waitFor();
  await detail.locator("del", { hasText: "ann@example.com" }).waitFor();

  // Replays without a result.
  say("/v1/replays/rp_made", replay({ status: "canceled" }, []));
  say("/v1/replays/rp_made/runs", { runs: [] });
  await page.reload();
  await page.getByText("Canceled before the first run").waitFor();
  say("/v1/replays/rp_made", replay({}, results.slice(22)));
  say("/v1/replays/rp_made/runs", { runs: results.slice(22) });
  await page.reload();
  await page.getByText("No run could be replayed").waitFor();
  await page.getByRole("row", { name: "A version of its agent was deleted. 2" }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Start a canary" }).count(), 0);
  say("/v1/replays/rp_made", replay({}, [results[0]]));
  say("/v1/replays/rp_made/runs", { runs: [results[0]] });
  await page.reload();
  await page.getByRole("heading", { name: "The run would stay the same" }).waitFor();
  say("/v1/replays", { replays: [replay({}), replay({ id: "rp_a", status: "running", ended: undefined, candidate: { digest: `sha256:${"0".repeat(64)}`, module: "mask@1.3.0", entry: "mask" } }, results.slice(0, 8)), replay({ id: "rp_b", status: "queued", ended: undefined }, [])] });
  await open("Replay before rollout");
  await page.getByRole("link", { name: "archivist, mask@1.3.0" }).waitFor();
  await shot("replays", "replays");

  // A canary is started from the report.
  await page.getByRole("link", { name: "archivist, version 2" }).first().click();
  await page.getByRole("link", { name: "Start a canary" }).click();
  await title("Start a canary");
  say("/v1/agents/archivist/aliases", { aliases: [{ alias: "stable", version: 1, updated: ago(9000) }] });
  await page.reload();
  await page.getByLabel("New version").selectOption("2");
  await page.getByRole("button", { name: "Remove step 3" }).click();
  await page.getByLabel("Minutes of step 2").fill("30");
  await page.getByLabel("Cost of a run", { exact: true }).uncheck();
  await page.getByLabel("Runs with a denied tool call, tolerated increase in percentage points").fill("2.5");
  await page.getByLabel("by thread: a conversation keeps its version").check();
  await shot("canary", "canary");
  let asked;
  say("POST /v1/agents/archivist/rollouts", (body) => (asked = body) && rollout());
  say("/v1/rollouts/ro_made", rollout());
  say("/v1/rollouts/ro_made/history", history());
  await page.getByRole("button", { name: "Start the canary" }).click();
  await title("archivist@stable: version 1 → 2");
  assert.deepEqual(asked, { alias: "stable", version: 2, by: "thread", steps: [{ percent: 10, seconds: 600 }, { percent: 50, seconds: 1800 }], rollback: { min_runs: 20, increase: { faults: 0.02, errors: 0.02, denials: 0.025, latency: 0.5 }, off: ["cost"] } });
  await page.getByText("7 min of 10 min").waitFor();
  const compared = page.getByRole("region", { name: "Comparison" });
  await compared.getByRole("row", { name: "Runs with a denied tool call 1.2 % 8.9 % +7.7 points 5 points more" }).waitFor();
  const plot = page.getByRole("group", { name: /^Runs with a denied tool call: arrow keys/ });
  await plot.press("ArrowRight");
  await page.locator(".chart", { has: plot }).getByRole("status").getByText(/Version 1 1\.0 %/).waitFor();
  await plot.press("Escape");
  await page.clock.fastForward(4000); // the toast goes
  await shot("rollout", "rollout");

  // The rollout is paused and resumed, and the server rolls it back. The page shows this without a reload.
  const changes = (to) => () => {
    say("/v1/rollouts/ro_made", to);
    return to;
  };
  say("POST /v1/rollouts/ro_made/pause", changes(rollout({ status: "paused", reason: "by user ann@example.com" })));
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Pause the steps?" }).click();
  await page.getByText("Version 2 keeps 10 % of the runs.").waitFor();
  say("POST /v1/rollouts/ro_made/resume", changes(rollout()));
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Resume the steps?" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  const over = { status: "rolled_back", ended: ago(0), reason: "runs with a denied tool call: 8.9 % of 45 in the canary, 1.2 % of 412 in the stable version; an increase of 5.0 % is tolerated" };
  say("/v1/rollouts/ro_made", rollout(over));
  await page.getByRole("heading", { level: 1 }).focus();
  await page.clock.fastForward(2000);
  await page.getByText("Runs with a denied tool call: 8.9 % with version 2, 1.2 % with version 1.").waitFor();
  await page.getByText("All runs of archivist@stable get version 1 again.").waitFor();
  await page.clock.fastForward(4000);
  await shot("rolled-back", "rolled-back");

  // The page of an agent's aliases, which are moved and deleted.
  say("/v1/rollouts", { rollouts: [rollout(), rollout({ id: "ro_b", agent: "clumsy", percent: 50, step: 2, status: "paused" })] });
  await open("Rollouts");
  await page.getByRole("link", { name: /archivist@stable/ }).waitFor();
  await shot("rollouts", "rollouts");
  say("/v1/agents/archivist/rollouts", { rollouts: [rollout(over), rollout({ id: "ro_c", status: "promoted", ended: ago(400), percent: 100, step: 3, reason: "all steps are over" })] });
  answers.delete("GET /v1/agents/archivist/aliases");
  await page.getByRole("link", { name: "archivist", exact: true }).click();
  await page.getByText("No aliases.").waitFor();
  await page.getByRole("button", { name: "New alias" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Alias").fill("beta");
  await dialog.getByLabel("Version").selectOption("2");
  await dialog.getByLabel("Reason").fill("for friends <b>only</b>");
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("row", { name: /beta Version 2 .* for friends <b>only<\/b>/ }).first().waitFor();
  await page.getByRole("button", { name: "Move beta" }).click();
  await dialog.getByLabel("Version").selectOption("1");
  await dialog.getByRole("button", { name: "Move" }).click();
  await page.getByRole("row", { name: /beta Version 1/ }).waitFor();
  await page.getByText("Moves of beta").click();
  await page.getByRole("region", { name: "Moves" }).getByRole("row").nth(2).waitFor();
  await page.clock.fastForward(4000);
  await shot("aliases", "aliases");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete the alias?" }).click();
  await page.getByText("No aliases.").waitFor();
  await page.unroute(routed);
  await page.goto(`${told.url}/#/runs`);
  await title("Runs");
}
