// The form that starts a canary.
import { h, fill, icon } from "../dom.js";
import { asyncAction, emptyState, field } from "../parts.js";
import { get, all, call } from "../api.js";
import { moduleNames } from "../names.js";
import { choice, load, versionChoice } from "../release.js";
import { setKey } from "../yaml.js";
import { toast } from "../toast.js";

// The figures that can cause a rollback: text, unit, and the increase that is tolerated by default,
// in this unit.
const figures = {
  faults: ["Runs with a fault", "points", 2], errors: ["Runs that end with an error", "points", 2], denials: ["Runs with a denied tool call", "points", 5],
  latency: ["Time of a run, p95", "%", 50], cost: ["Cost of a run", "%", 50],
};
const defaults = [[10, 10], [50, 10], [100, 10]]; // percent and minutes

export async function canary({ query, signal }) {
  const agents = await all("/v1/agents", "agents", signal);
  const crumbs = h("p", { class: "crumbs" }, h("a", { href: "#/rollouts" }, "Rollouts"), "/", h("span", null, "Start a canary"));
  const title = h("h1", { tabindex: "-1" }, "Start a canary");
  if (agents.length === 0) return h("section", null, crumbs, title, emptyState("agents", "No agents yet", "A rollout needs an agent with two versions. Create one with:", "agent-runner agents apply agent.yaml"));
  const loaded = await load(query.get("agent") ?? agents[0].name, signal);
  const module = query.get("module") && { digest: query.get("module"), entry: query.get("entry") ?? "", name: (await moduleNames(signal)).get(query.get("module")) ?? query.get("module").slice(0, 19) };
  return h("section", { class: "narrow" }, crumbs, title,
    h("p", { class: "lead" }, "A part of the runs gets the new version. The server compares it with the stable version and rolls it back by itself if it does worse."),
    form(agents, loaded, module, Number(query.get("version")) || 0));
}

function form(agents, loaded, module, version) {
  const { agent } = loaded;
  const place = h("div");
  const button = h("button", { type: "submit", class: "main" }, "Start the canary");
  const name = h("select", { onchange: () => {
    for (const control of name.form.elements) control.disabled = true; // the page of the other agent replaces this one
    location.hash = `#/canary?${new URLSearchParams({ agent: name.value })}`;
  } }, agents.map((a) => h("option", { value: a.name, selected: a.name === agent.name }, a.name)));
  const stable = loaded.aliases.find((a) => a.alias === "stable");
  const aliases = [...new Set(["stable", ...loaded.aliases.map((a) => a.alias)])];
  const alias = h("select", null, aliases.map((a) => h("option", { value: a }, text(a))));
  function text(a) {
    const at = loaded.aliases.find((x) => x.alias === a);
    return at ? `${a}, now version ${at.version}` : `${a}, new: version ${agent.version}`;
  }
  const current = (stable ?? agent).version;
  const versions = versionChoice(loaded, version || undefined, current);
  if (module) {
    versions.prepend(h("option", { value: "0" }, `New version, with ${module.name}`));
    versions.value = "0";
  }
  const stages = new Stages();
  let by = "run";
  let saved; // the stored version with the module, which a second attempt uses again
  const minimum = h("input", { type: "number", min: "1", max: "5000", value: "20", required: true, inputmode: "numeric" });
  const limits = Object.entries(figures).map(([figure, [label, unit, value]]) => {
    const amount = h("input", { type: "number", min: "0.1", max: unit === "%" ? "10000" : "100", step: "any", value, required: true, "aria-label": `${label}, tolerated increase in ${unit === "%" ? "percent" : "percentage points"}`, inputmode: "decimal" });
    const on = h("input", { type: "checkbox", checked: true, onchange: () => (amount.disabled = !on.checked) });
    return { figure, amount, on, unit, row: h("div", null, h("label", { class: "check" }, on, label), amount, h("span", { class: "soft small" }, unit)) };
  });
  return h("form", { class: "stack", method: "post", onsubmit: asyncAction(button, place, async () => {
    const path = `/v1/agents/${encodeURIComponent(agent.name)}`;
    // If the alias did not exist, all runs would use the new version at once.
    if (!loaded.aliases.some((a) => a.alias === alias.value)) {
      await call("PUT", `${path}/aliases/${encodeURIComponent(alias.value)}`, { body: { version: agent.version, reason: "before a canary" } });
      loaded.aliases.push({ alias: alias.value, version: agent.version });
    }
    const increase = Object.fromEntries(limits.filter((l) => l.on.checked).map((l) => [l.figure, Number(l.amount.value) / 100]));
    const off = limits.filter((l) => !l.on.checked).map((l) => l.figure);
    const canaryVersion = Number(versions.value) || (saved ??= await withModule(path, agent, module));
    const r = await call("POST", `${path}/rollouts`, { body: { alias: alias.value, version: canaryVersion, by, steps: stages.value(), rollback: { min_runs: Number(minimum.value), increase, ...(off.length > 0 ? { off } : {}) } } });
    toast("The canary has started.");
    location.hash = `#/rollouts/${r.id}`;
  }) },
  h("div", { class: "card stack" }, h("h2", null, "What"), h("div", { class: "properties" }, field("Agent", name), field("Alias", alias, stable ? undefined : "Runs keep this version. The alias is created first.")),
    versions.options.length > 0 ? field("New version", versions, module ? `The newest version of ${agent.name}, with this module as ${module.entry.split("@")[0]}. It is saved first.` : undefined)
      : emptyState("agents", "There is only one version", "Save another version of the agent first.", h("a", { class: "button", href: `#/edit/${encodeURIComponent(agent.name)}` }, "Edit the agent"))),
  h("div", { class: "card stack" }, h("h2", null, "How many"), stages.element,
    h("fieldset", null, h("legend", null, "The part is chosen"), h("div", { class: "checks" }, choice("by", "run", "by run", true, () => (by = "run")), choice("by", "thread", "by thread: a conversation keeps its version", false, () => (by = "thread"))))),
  h("div", { class: "card stack" }, h("h2", null, "Roll back by itself if the new version has more"), h("div", { class: "limits", role: "group", "aria-label": "Limits" }, limits.map((l) => l.row)),
    field("Runs of each version that a comparison needs", minimum, "A difference must also be too large for chance. Points are percentage points.")),
  place, h("div", null, versions.options.length > 0 && button));
}

// withModule stores a new version of an agent in which an entry has another module, and returns the
// version's number.
async function withModule(path, agent, module) {
  const newest = await get(path);
  const is = (x, y) => x.split("@")[0] === y.split("@")[0];
  const entry = newest.modules.find((x) => x.name === module.entry) ?? newest.modules.find((x) => is(x.name, module.entry));
  if (!entry) throw new Error(`The newest version of ${agent.name} has no entry ${module.entry}. Edit the agent instead.`);
  const { file } = await call("POST", `${path}/check`, { body: newest.yaml, headers: { "Content-Type": "application/yaml" } });
  const steps = entry.at.match(/[^.[\]]+/g); // such as middlewares, 0
  const at = steps.reduce((x, key) => x?.[key], file);
  if (!at) throw new Error(`The entry ${module.entry} is not in the file of ${agent.name}. Edit the agent instead.`);
  at.module = module.digest.replace("sha256:", "");
  at.name ??= entry.name.split("@")[0];
  const saved = await call("PUT", path, { body: setKey(newest.yaml, steps[0], file[steps[0]]), headers: { "Content-Type": "application/yaml" } });
  return saved.version;
}

// Stages are the steps of a rollout, which can be added and removed.
class Stages {
  #rows = [];

  constructor() {
    this.list = h("div", { class: "stages" });
    this.element = h("fieldset", null, h("legend", null, "Percent of runs, and minutes"), this.list, h("p", { class: "hint" }, "A step ends after its time, once enough runs are compared. After 100 % the alias moves."),
      h("button", { type: "button", class: "quiet", onclick: () => this.add(Math.min(100, (this.#rows.at(-1)?.percent.valueAsNumber || 0) + 25), 10) }, icon("plus"), "Add a step"));
    for (const [percent, minutes] of defaults) this.add(percent, minutes);
  }

  add(percentValue, minutesValue) {
    const n = this.#rows.length + 1;
    const input = (max, value, label) => h("input", { type: "number", min: "0", max, value, required: true, "aria-label": label, inputmode: "numeric" });
    const row = { percent: input("100", percentValue, `Percent of step ${n}`), minutes: input("43200", minutesValue, `Minutes of step ${n}`) };
    row.percent.min = "1";
    row.element = h("div", null, row.percent, "% for at least", row.minutes, "min", h("button", { type: "button", class: "quiet square", title: "Remove the step", "aria-label": `Remove step ${n}`, onclick: () => {
      if (this.#rows.length === 1) return;
      this.#rows = this.#rows.filter((r) => r !== row);
      this.draw();
    } }, icon("close")));
    this.#rows.push(row);
    this.draw();
  }

  draw() {
    fill(this.list, this.#rows.map((r) => r.element));
  }

  value() {
    return this.#rows.map((r) => ({ percent: r.percent.valueAsNumber, seconds: Math.round(r.minutes.valueAsNumber * 60) }));
  }
}
