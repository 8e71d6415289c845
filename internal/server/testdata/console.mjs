// Uses the console as a person would, in Chromium. It reads its input from stdin, and fails if
// anything is not as expected. The first visit, light and wide, uses all pages. The second visit,
// dark and narrow, uses the pages of runs; with told.whole, it uses all pages too.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import { threads } from "./console_threads.mjs";
import { releases } from "./console_release.mjs";
import { drafts as editsDrafts } from "./console_drafts.mjs";
import { chooses } from "./console_tenants.mjs";
import { counted } from "./counted.mjs";

const told = JSON.parse(readFileSync(0, "utf8"));
const require = createRequire(join(told.folder, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const { Client } = await import(pathToFileURL(join(told.client, "index.js")));
const client = new Client({ baseUrl: told.url, key: told.key });
const operator = new Client({ baseUrl: told.url, key: told.operator });
await seed();

// plain is a run that the server does not have.
const plain = { id: "run_made", agent: "archivist", title: "Made up", status: "finished", step: 1, usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, fuel: 0, last_event: 0,
  created: new Date().toISOString(), updated: new Date().toISOString() };

const browser = await chromium.launch({ executablePath: told.chromium, args: ["--disable-gpu"] });
const wide = { width: 1280, height: 900 };
const narrow = { width: 390, height: 844 };
let page;
try {
  await visit("light", wide);
  await visit("dark", narrow);
} catch (e) {
  if (told.shots) await page?.screenshot({ path: join(told.shots, "failed.png"), fullPage: true }).catch(() => {});
  console.log(`at ${page?.url()}: ${await page?.locator("main").innerText().catch(() => "")}`.slice(0, 2000));
  throw e;
} finally {
  await browser.close();
}

// seed stores what the pages show: modules, agents with versions, and quotas.
async function seed() {
  for (const [name, body] of Object.entries(told.modules)) await client.request("put", "/v1/modules", { query: { name, version: "1" }, body, headers: { "Content-Type": "application/javascript" } });
  const apply = (agent, body) => client.request("put", "/v1/agents/{agent}", { path: { agent }, body, headers: { "Content-Type": "application/yaml" } });
  await apply("archivist", "model: {name: small}\n");
  await apply("archivist", "# Keeps the archive in order.\nmodel: {name: small}\ninstruction: Keep the archive in order.\nmiddlewares:\n- module: mask\n- module: asker\n");
  await apply("clumsy", "model: {name: small}\nmiddlewares: [{module: crash}]\n");
  await operator.request("patch", "/v1/tenants/{tenant}", { path: { tenant: "acme" }, body: { name: "Acme <b>Ltd</b>", quota: { concurrent_runs: 20, runs_per_day: 50, tokens_per_day: 200000 } } });
}

async function visit(scheme, viewport) {
  const light = scheme === "light";
  const whole = light || told.whole;
  const context = await browser.newContext({ colorScheme: scheme, viewport, reducedMotion: "reduce" });
  page = await context.newPage();
  page.setDefaultTimeout(20000); // the machine may be busy
  await page.clock.install(); // timers run without waiting
  const audits = await auditor(scheme, viewport);
  const wrong = [];
  page.on("pageerror", (e) => wrong.push(`error: ${e.message}`));
  page.on("dialog", (d) => wrong.push(`dialog: ${d.message()}`));
  page.on("console", (m) => {
    // Browsers log rejected requests and broken streams themselves.
    if (m.type() === "error" && !m.text().startsWith("Failed to load resource")) wrong.push(`console: ${m.text()}`);
  });
  page.on("request", (r) => {
    if (!r.url().startsWith(told.url) && !r.url().startsWith("data:")) wrong.push(`request: ${r.url()}`);
    if ([told.key, told.operator].some((k) => r.url().includes(k))) wrong.push("a request has the key in its address");
  });
  page.on("framenavigated", (f) => {
    if ([told.key, told.operator].some((k) => f.url().includes(k))) wrong.push("an address has the key");
  });
  const shot = async (name, kind) => {
    if (process.env.CONSOLE_TIMES) console.log(`${scheme} ${name} ${Math.round(performance.now())}`);
    if (told.shots) await picture(name, scheme, viewport);
    await fits(name);
    if (kind) audits.add(kind, await page.content());
    if (light && !told.whole) {
      await page.setViewportSize(narrow);
      await fits(`${name}, narrow,`);
      await page.setViewportSize(wide);
    }
  };
  const fits = async (name) => {
    const over = await page.locator("html").evaluate((e) => e.scrollWidth - e.clientWidth);
    assert.ok(over <= 0, `${name} is ${over} px wider than the window`);
  };
  const title = (text) => page.getByRole("heading", { level: 1, name: text }).waitFor();

  // Signing in: a wrong key first.
  await page.goto(`${told.url}/`);
  await page.getByLabel("Key", { exact: true }).fill("ar_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  await shot("signin", "signin");
  await page.getByLabel("Key", { exact: true }).fill(told.key);
  await page.keyboard.press("Enter");
  await title("Runs");

  await page.locator("h1:focus", { hasText: "Runs" }).waitFor(); // the focus starts at the heading
  await page.getByRole("link", { name: "Skip to the content" }).press("Enter");
  await page.locator("main:focus").waitFor();

  // A run is started with the keyboard.
  await page.getByRole("link", { name: "Start a run" }).first().click();
  await title("Start a run");
  await page.getByLabel("Input").fill("Please delete the report of 2019 and tell ann@example.com <b>when</b> it is gone.");
  await shot("start", "start");
  await page.keyboard.press("Control+Enter");

  // The run asks for approval of a tool call, whose arguments the person changes.
  await page.getByRole("heading", { name: "Approve this tool call?" }).waitFor();
  await page.getByText("May <em>reports/2019.txt</em> be deleted?").waitFor();
  await page.getByText("needs an answer").waitFor();
  await page.locator(".timeline .bar.hook").first().waitFor();
  await shot("question", "question");
  const approve = page.getByRole("button", { name: /^Approve/ });
  await page.getByLabel("Arguments").fill("no JSON");
  await approve.click();
  await page.getByText("The arguments are not valid JSON").waitFor();
  await page.getByLabel("Arguments").fill('{"path": "reports/2019-copy.txt"}');
  await page.getByRole("button", { name: "Approve with these arguments" }).click();

  // The run ends, and the page shows the changes by modules.
  await page.locator(".facts").getByText("finished").waitFor();
  await page.locator(".talk").getByText("deleted reports/2019-copy.txt").waitFor();
  const first = page.locator(".diff", { hasText: "message 1 (user)" });
  assert.equal(await first.locator("del").first().textContent(), "ann@example.com");
  assert.equal(await first.locator("ins").first().textContent(), "[address]");
  await page.locator(".diff", { hasText: "the model's answer" }).locator("ins", { hasText: "<i>as asked</i>" }).waitFor();
  await page.locator(".diff", { hasText: "arguments" }).locator("ins", { hasText: "dry" }).waitFor();
  await page.locator(".diff", { hasText: "message 1 of the request (system)" }).first().locator("ins", { hasText: "<u>Be brief.</u>" }).waitFor();
  await page.locator(".note", { hasText: "parameter temperature" }).first().waitFor();
  assert.equal(await page.getByText("splice").count(), 0);
  await page.locator(".deed", { hasText: "on_chunk" }).locator(".diff", { hasText: "the stream" }).locator("ins", { hasText: ";" }).waitFor();
  await page.getByText("<script>document.title='owned'</script>").first().waitFor();
  await page.getByText("Part 2 of 2").waitFor();
  assert.match(await page.title(), /^Please delete/);
  assert.equal(await page.locator("main img, main script, main em, main i").count(), 0);
  await shot("run", "run");
  if (told.shots && light) await page.screenshot({ path: join(told.shots, "console.png"), clip: { x: 0, y: 0, width: 1280, height: 800 } }); // for docs/console.md

  // The timeline links to the changes of a hook.
  await page.getByRole("button", { name: "changed" }).first().click();
  await page.locator(".deed.found", { hasText: "message 1 (user)" }).waitFor();

  // A run in progress is canceled.
  await page.getByRole("link", { name: "Start another" }).click();
  await title("Start a run");
  await page.getByLabel("Input").fill("Wait for me.");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByText("live", { exact: true }).waitFor();
  await page.locator(".timeline .bar.open").first().waitFor();
  await page.locator(".message .said", { hasText: "I am still thinking" }).waitFor(); // the message is not finished
  const mask = page.getByRole("region", { name: "Modules now" }).getByRole("row", { name: /^mask/ });
  await mask.getByText("on_chunk").waitFor();
  await mask.getByText(/ MiB$/).waitFor();
  await shot("live", "live");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Cancel this run?" }).click();
  await page.locator(".facts").getByText("canceled").waitFor();
  await mask.waitFor({ state: "hidden" });

  // The list, its filters, and the other pages.
  await open("Runs");
  await page.getByRole("link", { name: /^Please delete/ }).first().waitFor();
  await shot("runs", "runs");
  if (light) await keptUpToDate();
  await page.getByLabel("Status").selectOption("paused");
  await page.getByText("No matching runs").waitFor();
  await page.getByRole("link", { name: "Show all runs" }).click();
  await page.getByRole("link", { name: /^Please delete/ }).first().waitFor();
  await open("Agents");
  await page.getByRole("link", { name: "archivist", exact: true }).click();
  await page.getByText("# Keeps the archive in order.").waitFor();
  await page.getByText("Compare versions").click();
  await page.locator(".diff ins", { hasText: "# Keeps" }).waitFor();
  await shot("agent", "agent");
  if (whole) await edits(title, shot, scheme);
  await open("Modules");
  await shot("modules", "modules");
  if (whole) await uploads(title, shot, scheme);
  await page.getByRole("link", { name: "mask", exact: true }).click();
  await page.getByText("Hides addresses from the model.").waitFor();
  await page.getByRole("listitem").filter({ hasText: /^archivist version 2/ }).waitFor();
  await shot("module", "module");
  // A faulty module: its fault is shown with the run and with the module.
  await page.goto(`${told.url}/#/start?agent=clumsy`);
  await title("Start a run");
  await page.getByLabel("Input").fill("Stumble.");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("region", { name: "Faults", exact: true }).getByText("TypeError").first().waitFor();
  await page.locator(".facts").getByText("error").waitFor();
  await shot("fault", "fault");
  await open("Modules");
  await page.getByRole("link", { name: "crash", exact: true }).click();
  await page.getByRole("link", { name: "Stumble." }).first().waitFor();
  if (whole) await others();
  if (light) {
    await elsewhere(title);
    await drafts(title);
    await hostile(title);
    await large(title);
    await empty();
    await troubles(title);
  }
  assert.equal(await page.getByRole("link", { name: "Tenants", includeHidden: true }).count(), 0);
  if (whole) await managed();

  // A reload stays signed in; signing out deletes the key.
  await open("Usage");
  await page.reload();
  await title("Usage");
  await signOut();
  await page.getByLabel("Key", { exact: true }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length + localStorage.length + document.cookie.length), 0);

  if (whole) await operated();
  assert.deepEqual(wrong, []);
  await context.close();
  await audits.end();
  console.log(`ok: ${scheme}`);

  // others uses the pages of what a tenant has beside runs.
  async function others() {
    await questions(title, shot);
    await inbox(title, shot);
    await threads({ page, client, title, shot, scheme, open });
    await releases({ page, title, shot, open, told });
    await editsDrafts({ page, client, url: told.url, title, shot });
    await comparison(title, shot);
    await charts(title, shot);
  }

  // managed uses the pages of a tenant's keys, secrets, members and audit log.
  async function managed() {
    await credentials(shot, scheme, open);
    await people(shot, scheme, open);
    await records(title, shot, open);
  }

  // operated uses the operator's pages.
  async function operated() {
    await page.getByLabel("Key", { exact: true }).fill(told.operator);
    await page.keyboard.press("Enter");
    await title("Usage");
    await open("Tenants");
    await shot("tenants", "tenants");
    await page.getByRole("link", { name: "acme" }).click();
    await title("Acme <b>Ltd</b>");
    await shot("tenant", "tenant");
    await quotas(title, scheme, open);
    await open("Blocks");
    await page.getByLabel("Digest").fill("0".repeat(64));
    await page.getByLabel("Reason").fill("It sent what it read elsewhere.");
    await page.getByRole("button", { name: "Block" }).click();
    await page.getByRole("cell", { name: "It sent what it read elsewhere." }).waitFor();
    await shot("blocks", "blocks");
    await page.getByRole("button", { name: "Unblock" }).click();
    await page.getByRole("button", { name: "Unblock this module?" }).click();
    await page.getByText("No blocked modules.").waitFor();

    await chooses({ browser, url: told.url, keys: { acme: told.key, "@operator": told.operator }, scheme, viewport });
  }

  async function keptUpToDate() {
    await client.startRun({ agent: "clumsy", input: "Elsewhere." });
    await page.clock.fastForward(3000);
    await page.getByRole("link", { name: "Elsewhere." }).waitFor(); // the list is updated
  }

  async function open(name) {
    const menu = page.getByRole("button", { name: "Menu", exact: true });
    if (await menu.isVisible()) await menu.click();
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
    await page.locator("nav a[aria-current=page]", { hasText: name }).waitFor({ state: "attached" });
    await page.locator("main:not([aria-busy]) h1").waitFor();
  }
}

// picture saves the whole page, and for docs/console.md its upper part: light, dark and narrow.
async function picture(name, scheme, viewport) {
  await page.screenshot({ path: join(told.shots, `${scheme}-${name}.png`), fullPage: true });
  if (scheme !== "light") return;
  const parts = [];
  for (const [kind, colorScheme, size] of [["light", "light", { width: 1280, height: 860 }], ["dark", "dark", { width: 1280, height: 860 }], ["narrow", "light", { width: 375, height: 860 }]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(size);
    parts.push(`<img alt="${kind}" height="430" src="data:image/png;base64,${(await page.screenshot()).toString("base64")}">`);
  }
  await page.emulateMedia({ colorScheme: scheme });
  await page.setViewportSize(viewport);
  const sheet = await browser.newPage({ viewport: { width: 1508, height: 450 } });
  await sheet.setContent(`<body style="margin:10px;display:flex;gap:10px;background:#888">${parts.join("")}`);
  await sheet.screenshot({ path: join(told.shots, `sheet-${name}.png`) });
  await sheet.close();
}

// signOut signs out; in a narrow window, with the menu.
async function signOut() {
  const menu = page.getByRole("button", { name: "Menu", exact: true });
  if (await menu.isVisible()) await menu.click();
  await page.getByRole("button", { name: "Sign out" }).click();
}

// inbox: questions of several paused runs are answered with the keyboard only.
async function inbox(title, shot) {
  const sent = [];
  const paused = (n, tool) => ({ ...plain, id: `run_${n}`, title: `Waiting ${n}`, status: "paused", interrupts: [{ id: "int_1", entry: "asker", hook: "gate_tool", reason: `May it ${tool}?`, call: { id: "c1", name: tool, arguments: '{"sum":5}' } }] });
  let runs = [paused("one", "pay"), paused("two", "tip"), paused("three", "lend")];
  const routed = /\/v1\/runs(\?.*)?$/;
  await page.route(routed, async (route) => {
    if (route.request().method() !== "POST") return route.fulfill({ json: { runs } });
    const { run, answers } = route.request().postDataJSON();
    sent.push([run, answers.int_1.decision]);
    runs = runs.filter((r) => r.id !== run);
    await route.fulfill({ json: plain });
  });
  await page.goto(`${told.url}/#/approvals`);
  await title("Approvals");
  await page.getByText("3 questions.").waitFor();
  await shot("approvals", "approvals");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("d");
  await page.getByText("2 questions.").waitFor();
  await page.keyboard.press("a");
  await page.getByText("1 question.").waitFor();
  runs = [...runs, paused("four", "sell")];
  await page.clock.fastForward(3000);
  await page.getByText("May it sell?").waitFor();
  assert.deepEqual(sent, [["run_two", "deny"], ["run_three", "approve"]]);
  await page.unroute(routed);
}

// comparison: two runs of the list are compared.
async function comparison(title, shot) {
  await page.goto(`${told.url}/#/runs`);
  await page.getByRole("link", { name: /^Please delete/ }).first().click();
  await page.getByRole("link", { name: "Compare" }).click();
  await title("Compare runs");
  const second = page.getByLabel("Second run");
  await second.selectOption({ index: await second.locator("option").count() - 1 });
  await page.getByRole("region", { name: "Figures" }).waitFor();
  await page.locator(".talk .message").first().waitFor();
  await shot("compare", "compare");
}

// charts: series are drawn, and read by keyboard and as a table.
async function charts(title, shot) {
  await page.goto(`${told.url}/#/usage?range=day`);
  await title("Usage"); // shows the server's runs
  await page.getByRole("group", { name: /^Runs: arrow keys/ }).waitFor();
  const hour = 3600000;
  const first = Math.floor((await page.evaluate(() => Date.now())) / hour) * hour - 23 * hour;
  const point = (i, n) => ({ start: new Date(first + i * hour).toISOString(), runs: n, failed: i % 7 ? 0 : 1, canceled: 0, latency_p50_ms: 700 + 30 * n, latency_p95_ms: 1500 + 90 * n, prompt_tokens: 800 * n, completion_tokens: 130 * n, cost: 0.004 * n, faults: i % 5 ? 0 : 2, denials: i % 6 ? 0 : 1, calls: 9 * n, hook_ms: 4 * n });
  const group = (agent, scale) => ({ agent, total: { ...point(0, 310 * scale), latency_p95_ms: 2400 }, points: Array.from({ length: 24 }, (_, i) => point(i, Math.round(scale * (14 + 9 * Math.sin((i - 6) / 3.8) + (i * 7) % 5)))) });
  await page.route(/\/v1\/series/, (route) => route.fulfill({ json: { bucket: "hour", from: new Date(first).toISOString(), to: new Date(first + 24 * hour).toISOString(), by: "agent", currency: "USD", more_groups: 3,
    groups: route.request().url().includes("by=") ? [group("support <b>desk</b>", 1), group("archivist", 0.5)] : [group("", 1.5)] } }));
  await page.goto(`${told.url}/#/usage?range=day&by=agent`);
  const plot = page.getByRole("group", { name: /^Runs: arrow keys/ });
  await page.getByText("support <b>desk</b>").first().waitFor();
  await plot.press("ArrowLeft");
  const readout = page.locator(".chart", { has: plot }).getByRole("status");
  await readout.getByText(/support <b>desk<\/b> \d+ archivist \d+/).waitFor();
  await plot.press("Escape");
  await page.locator(".chart").first().getByText("Table").click();
  const numbers = page.getByRole("region", { name: "Runs", exact: true }).getByRole("row");
  await counted(numbers, 25);
  await page.locator(".chart").first().getByText("Table").click();
  await shot("usage", "usage");
  await page.unroute(/\/v1\/series/);
}

// credentials: keys are created and revoked, and secrets are stored and deleted.
async function credentials(shot, scheme, open) {
  const dialog = page.getByRole("dialog");
  await open("Keys");
  await page.getByRole("button", { name: "Create a key" }).click();
  await dialog.getByLabel("Name").fill(`reader <b>${scheme}</b>`);
  await dialog.getByLabel("Expires").selectOption("In 30 days");
  await dialog.getByLabel("runs:read").check();
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText("Copy it now").waitFor();
  const secret = await dialog.locator(".secret code").textContent();
  assert.match(secret, /^ar_[a-z2-7]{10}_[a-z2-7]{52}$/);
  await dialog.getByRole("button", { name: "Done" }).click();
  const row = page.getByRole("row", { name: `reader <b>${scheme}</b>` });
  await row.getByText("runs:read").waitFor();
  await shot("keys", "keys");
  assert.equal(await page.getByText(secret).count(), 0, "it is shown once");
  await row.getByRole("button", { name: "Revoke" }).click();
  await row.getByRole("button", { name: "Revoke permanently?" }).click();
  await row.getByText("revoked").waitFor();
  await open("Secrets");
  await page.getByRole("button", { name: "Set a secret" }).first().click();
  await dialog.getByLabel("Name").fill(`KEY_${scheme}`);
  await dialog.getByLabel("Value").fill("hush");
  await dialog.getByRole("button", { name: "Store" }).click();
  await page.getByRole("cell", { name: `KEY_${scheme}` }).waitFor();
  await shot("secrets", "secrets");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete permanently?" }).click();
  await page.getByText("No secrets yet").waitFor();
}

// people: a member is added, gets another role, and is removed.
async function people(shot, scheme, open) {
  const dialog = page.getByRole("dialog");
  await open("Members");
  await page.getByRole("button", { name: "Add a member" }).first().click();
  await dialog.getByLabel("E-mail address").fill(`ann-${scheme}@example.com`);
  await dialog.getByLabel("Name").fill("Ann <i>Other</i>");
  await dialog.getByRole("button", { name: "Add" }).click();
  const row = page.getByRole("row", { name: "Ann <i>Other</i>" });
  await row.getByText("developer").waitFor();
  await shot("members", "members");
  await row.getByRole("button", { name: "Change role" }).click();
  await dialog.getByLabel("Role").selectOption("viewer");
  await dialog.getByRole("button", { name: "Save" }).click();
  await row.getByText("viewer").waitFor();
  await row.getByRole("button", { name: "Remove" }).click();
  await row.getByRole("button", { name: "Remove this person?" }).click();
  await page.getByText("No members yet").waitFor();
}

// records: the audit log has what was done above.
async function records(title, shot, open) {
  await open("Audit log");
  await page.getByRole("cell", { name: "member.remove" }).first().waitFor();
  await shot("audit", "audit");
  await page.getByLabel("Action").fill("key.create");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.getByRole("cell", { name: "key.create" }).first().waitFor();
  await page.getByRole("cell", { name: "member.remove" }).first().waitFor({ state: "detached" });
  await page.getByRole("row").nth(1).getByText(/before|after|name/).first().click();
  await page.locator("td pre").first().waitFor();
}

// quotas: the operator changes a quota and the policy, and creates and deletes a tenant.
async function quotas(title, scheme, open) {
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Change" }).first().click();
  await dialog.getByLabel("Modules").fill("77");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("row", { name: "Modules 77" }).waitFor();
  await page.getByRole("row", { name: "Runs per day 50" }).waitFor(); // the other quotas stay
  await page.getByRole("button", { name: "Change" }).nth(1).click();
  await dialog.getByLabel("Hosts", { exact: true }).fill("api.example.com, *.example.org");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("api.example.com, *.example.org").waitFor();
  await open("Tenants");
  await page.getByRole("button", { name: "Create a tenant" }).click();
  await dialog.getByLabel("Id").fill(`new-${scheme}`);
  await dialog.getByRole("button", { name: "Create" }).click();
  await title(`new-${scheme}`);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete the tenant with all its data?" }).click();
  await title("Tenants");
  await page.getByRole("link", { name: `new-${scheme}` }).waitFor({ state: "detached" });
}

// edits: a new agent is made with the form and with the text, and the server says what is wrong.
async function edits(title, shot, scheme) {
  await page.goto(`${told.url}/#/edit`);
  await title("New agent");
  const text = page.getByLabel("agent.yaml", { exact: true });
  await page.locator(".form").getByLabel("Instruction").waitFor();
  await text.fill("# <b>mine</b>\nmodel: {name: small}\nmdoel: x\n");
  await page.clock.fastForward(500);
  await page.getByText("did you mean").waitFor();
  await page.getByRole("button", { name: "Line 3" }).click();
  assert.equal(await text.evaluate((e) => e.value.slice(e.selectionStart, e.selectionEnd)), "mdoel: x");
  await text.fill("# <b>mine</b>\nmodel: {name: small}\n");
  await page.clock.fastForward(500);
  await page.getByText("Valid · 0 modules").waitFor();
  const form = page.getByRole("region", { name: "Form" });
  await form.getByText("Middlewares", { exact: true }).click();
  await form.getByRole("button", { name: "Add to middlewares" }).click();
  await form.getByLabel("Module", { exact: true }).fill("mask");
  await form.getByLabel("Grants").fill("read:last");
  await form.getByLabel("Instruction").fill("Be brief.\nBe kind.");
  await form.getByLabel("Instruction").blur();
  await page.getByText("Valid · 1 module").waitFor();
  assert.equal(await text.inputValue(), "# <b>mine</b>\nmodel: {name: small}\nmiddlewares:\n  - module: mask\n    grants:\n      - \"read:last\"\ninstruction: |-\n  Be brief.\n  Be kind.\n");
  await shot("edit", "edit");
  await form.getByLabel("Name", { exact: true }).first().fill(`made-${scheme}`);
  await page.getByRole("button", { name: "Create" }).click();
  await title(`made-${scheme}`);
  await page.getByText("Be kind.").waitFor();
  await page.getByRole("link", { name: "Edit" }).click();
  await title(`Edit made-${scheme}`);
  await page.getByText("Valid · 1 module").waitFor();
  await form.getByRole("button", { name: "Remove 1" }).click();
  await page.getByText("Valid · 0 modules").waitFor();
  await page.getByRole("button", { name: "Save as new version" }).click();
  await title(`made-${scheme}`);
  await page.locator(".facts").getByText("2", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete all versions?" }).click();
  await title("Agents");
}

// uploads: a file that is no module, one that the server rejects, and one that it takes.
async function uploads(title, shot, scheme) {
  const file = (name, text) => ({ name, mimeType: "application/octet-stream", buffer: Buffer.from(text) });
  await page.getByRole("button", { name: "Upload" }).first().click();
  const chooser = page.getByLabel("File of the module");
  await chooser.setInputFiles(file("notes.txt", "hello"));
  await page.getByText("notes.txt is not a module").waitFor();
  const form = page.getByRole("region", { name: "Upload a module" });
  await chooser.setInputFiles(file("Bad One.js", "export default {"));
  assert.equal(await form.getByLabel("Name").inputValue(), "bad-one");
  await form.getByRole("button", { name: "Upload" }).click();
  await form.getByRole("alert").waitFor();
  await shot("upload", "upload");
  await chooser.setInputFiles(file("greeter.js", `export default { name: "greeter", version: "1.0.0", description: "Greets <b>in ${scheme}</b>.", before_agent() { return {}; } };`));
  await form.getByLabel("Name").fill(`greeter-${scheme}`);
  await form.getByRole("button", { name: "Upload" }).click();
  await title(`greeter-${scheme}`);
  await page.getByText(`Greets <b>in ${scheme}</b>.`).waitFor();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete permanently?" }).click();
  await title("Modules");
  await page.getByRole("link", { name: `greeter-${scheme}` }).waitFor({ state: "detached" });
}

// make answers requests for a run with made-up data.
async function make(made, { history, events, posted } = {}) {
  const routed = new RegExp(`/v1/runs(/${made.id}.*)?$`);
  let streamed = false;
  await page.route(routed, async (route) => {
    const r = route.request();
    if (r.method() === "POST") posted?.(r.postDataJSON());
    if (new URL(r.url()).pathname.endsWith("/events")) {
      if (!events || streamed) return route.fulfill({ status: 204 });
      streamed = true;
      return route.fulfill({ contentType: "text/event-stream", body: events.map((e, i) => `id: ${i + 1}\ndata: ${JSON.stringify({ seq: i + 1, time_ms: i, ...e })}\n\n`).join("") });
    }
    if (r.url().endsWith("/history") && history) return route.fulfill({ json: history });
    if (r.url().endsWith(`/${made.id}`) || r.method() === "POST") return route.fulfill({ json: made });
    return route.fulfill({ status: 404, json: { title: "not found" } });
  });
  await page.goto(`${told.url}/#/runs/${made.id}`);
  return () => page.unroute(routed);
}

// questions answers each kind of interrupt of a made-up run. What is typed into one stays while
// others are answered.
async function questions(title, shot) {
  const sent = [];
  const call = (id, name) => ({ id, name, arguments: '{"sum":5}' });
  const made = { ...plain, status: "paused", interrupts: [
    { id: "int_1", reason: "client", client: true, call: call("c1", "where_am_i") },
    { id: "int_2", entry: "budget", hook: "before_model", reason: "Go on, for another dollar?", payload: { spent: 1.5 } },
    { id: "int_3", entry: "budget", hook: "before_model", reason: "And for another?" },
    { id: "int_4", entry: "asker", hook: "gate_tool", reason: "May it pay?", call: call("c4", "pay") },
    { id: "int_5", entry: "asker", hook: "gate_tool", reason: "May it tip?", call: call("c5", "tip") }] };
  const end = await make(made, { posted: ({ run, answers }) => {
    assert.equal(run, "run_made");
    sent.push(answers);
    made.interrupts = made.interrupts.filter((i) => !Object.hasOwn(answers, i.id));
  } });
  await title("Made up");
  await shot("questions", "questions");
  const ask = (text) => page.locator(".ask", { hasText: text });
  const press = async (text, name) => {
    await ask(text).getByRole("button", { name, exact: true }).click();
    await ask(text).waitFor({ state: "detached" });
  };
  await ask("where_am_i").getByLabel("Tool result").fill("in Lisbon");
  await ask("another dollar").getByLabel("Answer").fill('{"more": 2}');
  await ask("May it pay?").getByLabel("Reason, if you deny").fill("too much");
  await press("And for another?", "No");
  await press("where_am_i", "Send");
  await press("another dollar", "Send");
  await press("May it pay?", "Deny");
  // With the keyboard only.
  await page.locator("h1:focus").waitFor();
  const approve = ask("May it tip?").getByRole("button", { name: "Approve" });
  for (let i = 0; i < 12 && !(await approve.evaluate((e) => e === document.activeElement)); i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await approve.waitFor({ state: "detached" });
  assert.deepEqual(sent, [{ int_3: false }, { int_1: "in Lisbon" }, { int_2: { more: 2 } }, { int_4: { decision: "deny", message: "too much" } }, { int_5: { decision: "approve" } }]);
  await end();
}

// elsewhere: interrupts are answered by others, and the run ends. The page shows that, and
// keeps what is typed.
async function elsewhere(title) {
  const ask = (id, tool) => ({ id, entry: "asker", hook: "gate_tool", reason: "May it?", call: { id, name: tool, arguments: "{}" } });
  const made = { ...plain, id: "run_elsewhere", title: "Elsewhere", status: "paused", interrupts: [ask("int_1", "pay"), ask("int_2", "tip")] };
  const end = await make(made);
  await title("Elsewhere");
  const card = (tool) => page.locator(".ask", { has: page.getByText(tool, { exact: true }) });
  const changes = async (change) => {
    Object.assign(made, change, { updated: new Date(Date.parse(made.updated) + 1000).toISOString() });
    await page.clock.fastForward(3000);
  };
  await card("tip").getByLabel("Reason, if you deny").fill("not now");
  await changes({ interrupts: [ask("int_2", "tip")] });
  await card("pay").waitFor({ state: "detached" });
  assert.equal(await card("tip").getByLabel("Reason, if you deny").inputValue(), "not now");
  await changes({ status: "finished", interrupts: undefined });
  await card("tip").waitFor({ state: "detached" });
  await page.locator(".facts").getByText("finished").waitFor();
  await end();
}

// Drafts are restored after the key was entered again, but not for another user after signing
// out.
async function drafts(title) {
  const signIn = async () => {
    await page.getByLabel("Key", { exact: true }).fill(told.key);
    await page.keyboard.press("Enter");
  };
  const lost = async (route) => (route.request().method() === "POST" ? route.fulfill({ status: 401, json: { title: "no valid key" } }) : route.fallback());
  const made = { ...plain, status: "paused", interrupts: [{ id: "int_1", entry: "asker", hook: "gate_tool", reason: "May it?", call: { id: "c1", name: "pay", arguments: "{}" } }] };
  const end = await make(made);
  await title("Made up");
  await page.route(/\/v1\/runs$/, lost);
  await page.getByLabel("Arguments").fill('{"sum": 7}');
  await page.getByLabel("Reason, if you deny").fill("a long reason");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await page.getByText("no longer accepts this key").waitFor();
  await signIn();
  await title("Made up");
  assert.equal(await page.getByLabel("Reason, if you deny").inputValue(), "a long reason");
  await page.getByRole("button", { name: "Approve with these arguments" }).waitFor();
  await page.goto(`${told.url}/#/start`);
  await title("Start a run");
  await page.getByLabel("Input").fill("A long text.");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByText("no longer accepts this key").waitFor();
  await page.unroute(/\/v1\/runs$/, lost);
  await end();
  await signIn();
  await title("Start a run");
  assert.equal(await page.getByLabel("Input").inputValue(), "A long text.");
  await signOut();
  await signIn();
  await title("Start a run");
  assert.equal(await page.getByLabel("Input").inputValue(), "");
}

// hostile: names are shown as text everywhere.
async function hostile(title) {
  const bad = `<img src=x onerror="document.title='owned'">`;
  const link = "javascript:alert(document.domain)";
  const call = { id: "c1", type: "function", function: { name: bad, arguments: `{"to":"${link}"}` } };
  const end = await make({ ...plain, id: "run_bad", title: bad, agent: link, error: bad, modules: [{ entry: bad, digest: link }] }, {
    history: { input: [], messages: [{ role: "assistant", content: bad, tool_calls: [call] }, { role: "tool", name: link, tool_call_id: "c1", content: bad }],
      phases: [{ phase: "step", step: 1, calls: [{ what: "tool", call: "c1", answer: { content: bad } }, { entry: bad, what: "before_agent", answer: { tools: { add: [{ name: bad }] }, [bad]: link } }] }] },
    events: [{ type: "fault", entry: bad, hook: link, cause: bad, stderr: [bad] }, { type: "log", entry: bad, level: bad, text: bad }, { type: "custom", entry: bad, name: link, data: bad }] });
  await title(bad);
  await page.getByText("Faults and limits").waitFor();
  const harmless = async () => {
    assert.equal(await page.locator("main :is(img, script, iframe, object, form[action])").count(), 0);
    for (const to of await page.locator("a").evaluateAll((list) => list.map((a) => a.getAttribute("href")))) assert.match(to, /^#/);
    assert.doesNotMatch(await page.title(), /^owned/);
  };
  await harmless();
  await end();
  await page.route(/\/v1\/modules\?/, async (route) => {
    const r = await route.fetch();
    const body = await r.json();
    for (const m of body.modules) Object.assign(m, { names: [{ name: bad, version: link }], about: { ...m.about, hooks: [bad], grants: [link], warnings: [bad] } });
    await route.fulfill({ json: body });
  });
  await page.goto(`${told.url}/#/modules`);
  await page.getByRole("link", { name: bad }).first().waitFor();
  await harmless();
  await page.unrouteAll({ behavior: "wait" }); // a request of the list may not be answered yet
  await page.route(/\/v1\/agents\/archivist$/, async (route) => {
    const body = await (await route.fetch()).json();
    await route.fulfill({ json: { ...body, yaml: `# ${bad} ${link}\n`, warnings: [bad] } });
  });
  await page.goto(`${told.url}/#/agents/archivist`);
  await page.locator("pre", { hasText: bad }).waitFor();
  await harmless();
  await page.unrouteAll({ behavior: "wait" });
}

// A large run is shown in part, and more of it on request.
async function large(title) {
  const many = (n, f) => Array.from({ length: n }, (_, i) => f(i));
  const lines = (word) => many(10000, (i) => `line ${i} of ${word(i)}`).join("\n");
  const result = "abcdefghi\n".repeat(50000);
  const messages = many(1000, (i) => ({ role: i % 2 ? "assistant" : "user", content: `said ${i}` }));
  messages.push({ role: "tool", name: "read", tool_call_id: "c1", content: result });
  const recorded = [{ what: "tool", call: "c1", answer: { content: result } },
    { entry: "mask", what: "after_tool", answer: { result: { content: lines((i) => (i % 2 ? "odd" : "even")) } } },
    { entry: "mask", what: "before_agent", edits: [{ at: 0, removed: [{ role: "user", content: lines(() => "one") }], inserted: [{ role: "user", content: lines((i) => (i % 4999 ? "one" : "two")) }] }] }];
  await page.evaluate(() => {
    globalThis.longest = 0;
    globalThis.watch = new PerformanceObserver((list) => list.getEntries().forEach((e) => (globalThis.longest = Math.max(globalThis.longest, e.duration))));
    globalThis.watch.observe({ entryTypes: ["longtask"] });
  });
  const end = await make({ ...plain, id: "run_large", title: "Large" }, { history: { input: [], messages, phases: many(400, (i) => ({ phase: "step", step: i + 1, calls: i === 0 || i === 399 ? recorded : [{ entry: "mask", what: "before_model", answer: { instruction: `step ${i}` } }] })) },
    events: many(1000, (i) => ({ type: i % 2 ? "fault" : "log", entry: "mask", hook: "before_model", cause: `mistake ${i}`, level: "info", text: "x".repeat(100) })) });
  await title("Large");
  await page.locator(".diff ins", { hasText: "of two" }).first().waitFor();
  await page.getByText("mistake 999", { exact: false }).waitFor();
  const size = () => page.locator("main").evaluate((e) => e.textContent.length);
  assert.ok(await size() < 400000, `${await size()} characters are shown`);
  await counted(page.locator(".talk > .message"), 60);
  await page.locator(".talk > .between button").click();
  await counted(page.locator(".talk > .message"), 120);
  const said = page.locator(".message.tool");
  await said.locator("summary").click();
  const before = (await said.textContent()).length;
  await said.getByRole("button", { name: /^475,.* characters hidden: show more/ }).or(said.getByRole("button", { name: /characters hidden: show more/ })).click();
  assert.ok((await said.textContent()).length > before + 40000);
  if (process.env.CONSOLE_TIMES) console.log(`longest task: ${Math.round(await page.evaluate(() => globalThis.longest))} ms; ${await page.locator("main *").count()} elements, ${await size()} characters`);
  await end();
}

// Empty lists say which command adds to them.
async function empty() {
  const none = /\/v1\/(runs|agents|modules)\?/;
  await page.route(none, (route) => route.fulfill({ json: { runs: [], agents: [], modules: [] } }));
  for (const [at, command] of [["runs", 'agent-runner runs start AGENT "…"'], ["agents", "agent-runner agents apply agent.yaml"], ["modules", "agent-runner modules push PATH"], ["start", "agent-runner agents apply agent.yaml"]]) {
    await page.goto(`${told.url}/#/${at}`);
    await page.locator(".empty pre", { hasText: command }).waitFor();
  }
  await page.unroute(none);
}

// troubles: too many requests, no server, and an invalid key.
async function troubles(title) {
  const answers = [{ status: 429, headers: { "Retry-After": "9" }, json: { title: "quota" } }, undefined, { status: 401, json: { title: "no valid key" } }];
  await page.route(/\/v1\/keys/, (route) => {
    if (answers.length === 0) return route.continue();
    const a = answers.shift();
    return a ? route.fulfill(a) : route.abort();
  });
  await page.goto(`${told.url}/#/keys`);
  await page.getByText(/^Too many requests\. Retrying in \d s\.$/).waitFor();
  await page.clock.runFor(9000);
  await page.getByText(/^The server is not responding\. Retrying in \d s\.$/).waitFor();
  await page.clock.fastForward(1000);
  await page.clock.fastForward(1000);
  await page.getByText("no longer accepts this key").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.getByLabel("Key", { exact: true }).fill(told.key);
  await page.keyboard.press("Enter");
  await title("Keys");
  await page.unroute(/\/v1\/keys/);
}

// auditor checks accessibility: names, roles and contrast; without told.whole, contrast in both
// color schemes. It checks copies of pages in a window of its own: a page that changes meanwhile
// gives no result, and the console's policy does not allow the script axe.
async function auditor(scheme, viewport) {
  const context = await browser.newContext({ colorScheme: scheme, viewport, reducedMotion: "reduce" });
  const still = await context.newPage();
  let css;
  const found = [];
  let last = Promise.resolve();
  const look = async (kind, html) => {
    const sheets = [...html.matchAll(/<link rel="stylesheet" href="([^"]*)">/g)];
    css ??= (await Promise.all(sheets.map(async ([, at]) => (await fetch(told.url + at)).text()))).join("");
    html = html.replace(/<script[^>]*><\/script>|<link [^>]*>/g, "").replace("</head>", () => `<style>${css}</style></head>`);
    await still.setContent(html, { waitUntil: "domcontentloaded" });
    await still.evaluate(axe);
    assert.ok(await judge(scheme, kind) > 10, kind);
    if (told.whole || scheme === "dark") return;
    await still.emulateMedia({ colorScheme: "dark" });
    await judge("dark", kind, { runOnly: ["color-contrast"] });
    await still.emulateMedia({ colorScheme: scheme });
  };
  // judge keeps what is wrong with the copy, and returns the number of rules that it keeps.
  const judge = async (colors, kind, options) => {
    const { violations, passes } = await still.evaluate((o) => globalThis.axe.run(document, { resultTypes: ["violations"], ...o }), options);
    found.push(...violations.map((v) => `${colors} ${kind}: ${v.id}: ${v.help}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(" | ")}`));
    return passes.length;
  };
  return {
    add(kind, html) {
      last = last.then(() => look(kind, html));
      last.catch(() => {}); // reported at the end
    },
    async end() {
      await last;
      await context.close();
      assert.deepEqual(found, []);
    },
  };
}
