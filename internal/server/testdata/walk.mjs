// Walks through a rollout as a person does, in Chromium: from the sign-in to the audit log. It reads its input from
// stdin, and fails if anything is not as expected.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";

const told = JSON.parse(readFileSync(0, "utf8"));
const require = createRequire(join(told.folder, "package.json"));
const { chromium } = require("playwright-core");

const denies = `export default {
	name: "guard", version: "2.0.0", description: "Denies what it does not know.",
	gate_tool() { return { decision: "deny", message: "This tool is not known." }; },
};
`;

const browser = await chromium.launch({ executablePath: told.chromium, args: ["--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" });
page.setDefaultTimeout(60000); // the machine may be busy
const wrong = [];
page.on("pageerror", (e) => wrong.push(e.message));
const title = (name) => page.getByRole("heading", { level: 1, name }).waitFor();
const open = (name) => page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
const times = [];
let begun = performance.now();
const done = (what) => {
  times.push(`${what} ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  begun = performance.now();
};

// interactive measures how long pages take until they are complete and the browser is idle, with a processor that is
// two and four times as slow, and without a cache. CONSOLE_TIMES=yes prints the medians for docs/console.md.
async function interactive() {
  const slow = await page.context().newCDPSession(page);
  await slow.send("Network.setCacheDisabled", { cacheDisabled: true });
  await page.addInitScript(() => {
    const look = () => (document.querySelector("main:not([aria-busy]) h1") ? requestIdleCallback(() => (globalThis.interactive = performance.now())) : setTimeout(look, 5));
    addEventListener("DOMContentLoaded", look);
  });
  const { 0: rollout } = await page.evaluate(() => fetch("/v1/agents/clerk/rollouts").then((r) => r.json()).then((x) => x.rollouts.map((r) => r.id)));
  const { 0: replay } = await page.evaluate(() => fetch("/v1/replays").then((r) => r.json()).then((x) => x.replays.map((r) => r.id)));
  const pages = ["runs", "agents/clerk", "modules", "usage", `replays/${replay}`, `rollouts/${rollout}`];
  for (const [rate, at] of [2, 4].flatMap((rate) => pages.map((at) => [rate, at]))) {
    await slow.send("Emulation.setCPUThrottlingRate", { rate });
    const took = [];
    for (let i = 0; i < 5; i++) {
      await page.goto("about:blank");
      await page.goto(`${told.url}/#/${at}`);
      took.push(await (await page.waitForFunction(() => globalThis.interactive)).jsonValue());
    }
    console.log(`interactive, ${rate} times as slow: ${at.split("_")[0]}: ${Math.round(took.sort((a, b) => a - b)[2])} ms, slowest ${Math.round(took[4])} ms`);
  }
}

try {
  // Sign in with the identity provider.
  await page.goto(`${told.url}/`);
  await page.getByRole("link", { name: "Sign in with Example" }).click();
  await page.getByRole("button", { name: "Continue as Ann" }).click();
  await title("Runs");
  await page.getByText("ann@acme.example, owner").or(page.getByText("Ann, owner")).waitFor();
  await page.getByRole("link", { name: "Pay back order 7" }).waitFor();
  done("sign in");

  // Upload a module.
  await open("Modules");
  await page.getByRole("button", { name: "Upload" }).first().click();
  const form = page.getByRole("region", { name: "Upload a module" });
  await form.getByLabel("File of the module").setInputFiles({ name: "guard.js", mimeType: "text/javascript", buffer: Buffer.from(denies) });
  await form.getByLabel("Version").fill("2");
  await form.getByRole("button", { name: "Upload" }).click();
  await title("guard 2");
  await page.getByText("Denies what it does not know.").waitFor();
  done("upload");

  // Replay the stored runs with the module.
  await page.getByRole("link", { name: "Try this version on stored runs" }).click();
  await title("Try a version on stored runs");
  await page.getByLabel("One module, replaced").and(page.locator(":checked")).waitFor();
  assert.equal(await page.getByLabel("Agent", { exact: true }).inputValue(), "clerk");
  await page.getByLabel("The last runs").fill("8");
  await page.getByRole("button", { name: "Start the replay" }).click();
  await title(/^clerk, guard 2/);
  await page.getByRole("heading", { name: "8 of 8 runs would take another path" }).waitFor();
  await page.getByRole("row", { name: "Denied tool calls 0 8 new in 8 runs" }).waitFor();
  await page.getByRole("row", { name: "guard gate_tool 1 8" }).waitFor();
  const detail = page.getByRole("region", { name: "Before and after", exact: true });
  await detail.locator("del", { hasText: "allow" }).waitFor();
  await detail.locator("ins", { hasText: "deny" }).first().waitFor();
  done("replay");

  // Start a canary of the module with 10 percent of the runs, although the replay shows changes.
  await page.getByRole("link", { name: "Start a canary" }).click();
  await title("Start a canary");
  await page.getByLabel("New version").and(page.locator(":has(option:checked:text('New version, with guard'))")).waitFor();
  assert.equal(await page.getByLabel("Percent of step 1").inputValue(), "10");
  await page.getByLabel("Runs of each version that a comparison needs").fill("5");
  await page.getByRole("button", { name: "Start the canary" }).click();
  await title("clerk@stable: version 1 → 2");
  const rolledBack = page.getByRole("heading", { name: /^Rolled back after/ });
  await page.getByText("Version 2, canary: 10 %").or(rolledBack).first().waitFor(); // on a busy machine, the rollout may end before the page is shown
  done("canary");

  // The module denies each tool call, and the rollout is rolled back. The page shows this without a reload.
  await rolledBack.waitFor();
  await page.getByText("Runs with a denied tool call: 100 % with version 2, 0 % with version 1.").waitFor();
  await page.getByText("All runs of clerk@stable get version 1 again.").waitFor();
  await page.getByRole("region", { name: "Comparison" }).getByRole("row", { name: /^Runs with a denied tool call 0 % 100 %/ }).waitFor();
  await page.getByText("Version 1, stable: 100 %").waitFor();
  done("rollback");

  // The audit log has each of these actions.
  await open("Audit log");
  await title("Audit log");
  for (const [action, who] of [["rollout.roll_back", "server"], ["rollout.start", "ann@acme.example"], ["agent.put", "ann@acme.example"], ["alias.set", "ann@acme.example"], ["replay.start", "ann@acme.example"], ["module.upload", "ann@acme.example"], ["user.sign-in", "ann@acme.example"]]) {
    await page.getByRole("row").filter({ has: page.getByText(action, { exact: true }) }).filter({ hasText: who }).first().waitFor();
  }
  await page.getByLabel("Action").fill("rollout.roll_back");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.getByRole("cell", { name: "rollout.start", exact: true }).waitFor({ state: "detached" });
  const record = page.getByRole("row").filter({ has: page.getByText("rollout.roll_back", { exact: true }) });
  await record.locator("summary").click();
  await record.getByText(/runs with a denied tool call: 100\.0 %/).waitFor();
  done("audit log");
  assert.deepEqual(wrong, []);
  if (process.env.CONSOLE_TIMES) await interactive();
  console.log(`ok: walk: ${times.join(", ")}`);
} catch (e) {
  if (told.shots) await page.screenshot({ path: join(told.shots, "failed-walk.png"), fullPage: true }).catch(() => {});
  console.log(`at ${page.url()} after ${times.join(", ")}: ${await page.locator("body").innerText().catch(() => "")}`.slice(0, 2500));
  throw e;
} finally {
  await browser.close();
}
