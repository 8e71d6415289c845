// A visit to the console, as a person makes it, in Chromium. What it is told comes
// on stdin; it ends with an error where something is not as it should be.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";

const told = JSON.parse(readFileSync(0, "utf8"));
const require = createRequire(join(told.folder, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const browser = await chromium.launch({ executablePath: told.chromium, args: ["--disable-gpu"] });
let page;
try {
  await visit("light", { width: 1280, height: 900 });
  await visit("dark", { width: 390, height: 844 });
} catch (e) {
  await page?.screenshot({ path: join(told.shots, "failed.png"), fullPage: true }).catch(() => {});
  throw e;
} finally {
  await browser.close();
}

async function visit(scheme, viewport) {
  const context = await browser.newContext({ colorScheme: scheme, viewport, reducedMotion: "reduce" });
  page = await context.newPage();
  page.setDefaultTimeout(15000);
  const wrong = [];
  page.on("pageerror", (e) => wrong.push(`error: ${e.message}`));
  page.on("console", (m) => {
    // What the server refuses, and streams that break off, browsers say by themselves.
    if (m.type() === "error" && !m.text().startsWith("Failed to load resource")) wrong.push(`console: ${m.text()}`);
  });
  page.on("request", (r) => {
    if (!r.url().startsWith(told.url) && !r.url().startsWith("data:")) wrong.push(`request: ${r.url()}`);
  });
  const shot = async (name) => {
    if (process.env.CONSOLE_TIMES) console.log(`${scheme} ${name} ${Math.round(performance.now())}`);
    await page.screenshot({ path: join(told.shots, `${scheme}-${name}.png`), fullPage: true });
    const wide = await page.locator("html").evaluate((e) => e.scrollWidth - e.clientWidth);
    assert.ok(wide <= 0, `${name} is ${wide} px wider than the window`);
  };
  const title = (text) => page.getByRole("heading", { level: 1, name: text }).waitFor();

  // Signing in: a wrong key first.
  await page.goto(`${told.url}/`);
  await page.getByLabel("Key").fill("ar_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  await shot("signin");
  await page.getByLabel("Key").fill(told.key);
  await page.keyboard.press("Enter");
  await title("Runs");

  await page.locator("h1:focus", { hasText: "Runs" }).waitFor(); // where a page begins
  await page.getByRole("link", { name: "Skip to the content" }).press("Enter");
  await page.locator("main:focus").waitFor();

  // A run is started, by the keyboard.
  await page.getByRole("link", { name: "Start a run" }).click();
  await title("Start a run");
  await page.getByLabel("Input").fill("Please delete the report of 2019 and tell ann@example.com <b>when</b> it is gone.");
  await shot("start");
  await page.keyboard.press("Control+Enter");

  // It asks, and the arguments are changed.
  await page.getByRole("heading", { name: "May this tool be called?" }).waitFor();
  await page.getByText("May <em>reports/2019.txt</em> be deleted?").waitFor();
  await page.getByText("needs an answer").waitFor();
  await page.locator(".timeline .bar.hook").first().waitFor();
  await shot("question");
  const run = page.url();
  const approve = page.getByRole("button", { name: /^Approve/ });
  await page.getByLabel("Arguments").fill("no JSON");
  await approve.click();
  await page.getByText("The arguments are no JSON").waitFor();
  await page.getByLabel("Arguments").fill('{"path": "reports/2019-copy.txt"}');
  await page.getByRole("button", { name: "Approve with these arguments" }).click();

  // It ends, and says what was changed.
  await page.locator(".facts").getByText("finished").waitFor();
  await page.locator(".talk").getByText("deleted reports/2019-copy.txt").waitFor();
  const first = page.locator(".diff", { hasText: "message 1 (user)" });
  assert.equal(await first.locator("del").first().textContent(), "ann@example.com");
  assert.equal(await first.locator("ins").first().textContent(), "[address]");
  await page.locator(".diff", { hasText: "the model's answer" }).locator("ins", { hasText: "<i>as asked</i>" }).waitFor();
  await page.locator(".diff", { hasText: "arguments" }).locator("ins", { hasText: "dry" }).waitFor();
  await page.getByText("<script>document.title='owned'</script>").first().waitFor();
  await page.getByText("Part 2 of 2").waitFor();
  assert.match(await page.title(), /^Please delete/);
  assert.equal(await page.locator("main img, main script, main em, main i").count(), 0);
  await shot("run");
  await check(scheme, viewport, run, "run");

  // The timeline leads to what a hook changed.
  await page.getByRole("button", { name: "changed" }).first().click();
  await page.locator(".deed.found", { hasText: "message 1 (user)" }).waitFor();

  // One that goes on is cancelled.
  await page.getByRole("link", { name: "Start another" }).click();
  await title("Start a run");
  await page.getByLabel("Input").fill("Wait for me.");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByText("live", { exact: true }).waitFor();
  await page.locator(".timeline .bar.open").first().waitFor();
  await page.locator(".message .said", { hasText: "I am still thinking" }).waitFor(); // of a message that is not over
  await shot("live");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Cancel it?" }).click();
  await page.locator(".facts").getByText("canceled").waitFor();

  // The list, its filters, and the other pages.
  await open("Runs");
  await page.getByRole("link", { name: /^Please delete/ }).first().waitFor();
  await shot("runs");
  const begun = await fetch(`${told.url}/v1/runs`, { method: "POST", headers: { Authorization: `Bearer ${told.key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ agent: "clumsy", input: `Elsewhere, in ${scheme}.` }) });
  assert.equal(begun.status, 202);
  await page.getByRole("link", { name: `Elsewhere, in ${scheme}.` }).waitFor(); // the list is kept up to date
  await page.getByLabel("Status").selectOption("paused");
  await page.getByText("No runs.").waitFor();
  await open("Agents");
  await page.getByRole("link", { name: "archivist" }).click();
  await page.getByText("# Keeps the archive in order.").waitFor();
  await page.getByText("What changed since version 1").click();
  await page.locator(".diff ins", { hasText: "# Keeps" }).waitFor();
  await shot("agent");
  await open("Modules");
  await shot("modules");
  await page.getByRole("link", { name: "mask" }).click();
  await page.getByText("Hides addresses from the model.").waitFor();
  await shot("module");
  // A module that makes a mistake: its fault is told where the run is, and found from
  // where the module is.
  await page.goto(`${told.url}/#/start?agent=clumsy`);
  await title("Start a run");
  await page.getByLabel("Input").fill("Stumble.");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("region", { name: "Faults", exact: true }).getByText("TypeError").first().waitFor();
  await page.locator(".facts").getByText("error").waitFor();
  await shot("fault");
  await open("Modules");
  await page.getByRole("link", { name: "crash" }).click();
  await page.getByRole("button", { name: "Look for faults" }).click();
  await page.getByRole("link", { name: "Stumble." }).first().waitFor();
  await questions(title, shot);
  await open("Usage");
  await shot("usage");
  assert.equal(await page.getByRole("link", { name: "Tenants" }).count(), 0);

  // A reload stays signed in; signing out forgets the key.
  await page.reload();
  await title("Usage");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Key").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length + localStorage.length + document.cookie.length), 0);

  // The operator's pages.
  await page.getByLabel("Key").fill(told.operator);
  await page.keyboard.press("Enter");
  await title("Usage");
  await open("Tenants");
  await shot("tenants");
  await page.getByRole("link", { name: "acme" }).click();
  await title("Acme <b>Ltd</b>");
  await shot("tenant");
  await open("Blocks");
  await page.getByLabel("Digest").fill("0".repeat(64));
  await page.getByLabel("Reason").fill("It sent what it read elsewhere.");
  await page.getByRole("button", { name: "Block" }).click();
  await page.getByRole("cell", { name: "It sent what it read elsewhere." }).waitFor();
  await shot("blocks");
  await page.getByRole("button", { name: "Unblock" }).click();
  await page.getByRole("button", { name: "Let it be called again?" }).click();
  await page.getByText("No module is blocked.").waitFor();

  assert.deepEqual(wrong, []);
  await context.close();
  console.log(`ok: ${scheme}`);

  async function open(name) {
    await page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
    await page.locator("nav a[aria-current=page]", { hasText: name }).waitFor();
    await page.locator("main h1").waitFor();
    await page.locator(".busy").waitFor({ state: "detached" });
  }
}

// questions answers each kind of question, of a run that is made up.
async function questions(title, shot) {
  const sent = [];
  const made = { id: "run_made", agent: "archivist", title: "Made up", status: "paused", step: 1, usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, fuel: 0, last_event: 0,
    created: new Date().toISOString(), updated: new Date().toISOString(), interrupts: [
      { id: "int_1", reason: "client", client: true, call: { id: "c1", name: "where_am_i", arguments: "{}" } },
      { id: "int_2", entry: "budget", hook: "before_model", reason: "Go on, for another dollar?", payload: { spent: 1.5 } },
      { id: "int_3", entry: "asker", hook: "gate_tool", reason: "May it?", call: { id: "c2", name: "pay", arguments: '{"sum":5}' } }] };
  const routed = /\/v1\/runs(\/run_made.*)?$/;
  await page.route(routed, async (route) => {
    const r = route.request();
    if (r.method() === "POST") sent.push(r.postDataJSON());
    if (r.url().endsWith("/events")) return route.fulfill({ status: 204 });
    if (r.url().endsWith("/run_made") || r.method() === "POST") return route.fulfill({ json: made });
    return route.fulfill({ status: 404, json: { title: "not found" } });
  });
  await page.goto(`${told.url}/#/runs/run_made`);
  await title("Made up");
  await shot("questions");
  const asks = page.locator(".ask");
  const click = async (i, name) => {
    const n = sent.length;
    await asks.nth(i).getByRole("button", { name, exact: true }).click();
    await assertSoon(() => sent.length > n);
    await asks.nth(2).waitFor();
  };
  await asks.nth(0).getByLabel("What the tool answers").fill("in Lisbon");
  await click(0, "Send");
  await asks.nth(1).getByLabel("Answer").fill('{"more": 2}');
  await click(1, "Send");
  await click(1, "No");
  await asks.nth(2).getByLabel("Why not").fill("too much");
  await click(2, "Deny");
  await click(2, "Approve");
  assert.deepEqual(sent, [{ int_1: "in Lisbon" }, { int_2: { more: 2 } }, { int_2: false }, { int_3: { decision: "deny", message: "too much" } }, { int_3: { decision: "approve" } }]
    .map((answers) => ({ run: "run_made", answers })));
  await page.unroute(routed);
}

async function assertSoon(f) {
  for (let i = 0; i < 200 && !f(); i++) await page.waitForTimeout(50);
  assert.ok(f());
}

// check looks for what keeps people out: names, roles, contrast. What it brings is
// no script of the page's own, so that it has a context without the page's policy.
async function check(scheme, viewport, run) {
  const context = await browser.newContext({ colorScheme: scheme, viewport, bypassCSP: true, reducedMotion: "reduce" });
  const other = await context.newPage();
  await other.goto(`${told.url}/`);
  await other.getByLabel("Key").fill(told.key);
  await audit(other, "sign in");
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
  for (const at of [run, ...["#/runs", "#/start", "#/agents/archivist", "#/modules", "#/usage"].map((x) => `${told.url}/${x}`)]) {
    await other.goto(at);
    await other.reload(); // else another fragment leaves the page before in place for a moment
    await other.locator("main h1").waitFor();
    await other.waitForLoadState("networkidle").catch(() => {});
    await audit(other, at);
  }
  await context.close();
}

async function audit(other, where) {
  await other.evaluate(axe);
  const { violations } = await other.evaluate(() => globalThis.axe.run(document));
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(" | ")}`), [], where);
}
