// The form that starts a replay of stored runs.
import { h, fill } from "../dom.js";
import { asyncAction, emptyState, field } from "../parts.js";
import { all, call } from "../api.js";
import { nameOf } from "../names.js";
import { choice, load, versionChoice } from "../release.js";

const times = [["", "at any time"], ["1", "in the last 24 hours"], ["7", "in the last 7 days"], ["30", "in the last 30 days"]]; // by number of days
const day = 86400000; // milliseconds

export async function tryPage({ query, signal }) {
  const [agents, modules] = await Promise.all([all("/v1/agents", "agents", signal), all("/v1/modules", "modules", signal).catch(() => [])]);
  const crumbs = h("p", { class: "crumbs" }, h("a", { href: "#/replays" }, "Replay before rollout"), "/", h("span", null, "Try a version"));
  const title = h("h1", { tabindex: "-1" }, "Try a version on stored runs");
  if (agents.length === 0) return h("section", null, crumbs, title, emptyState("agents", "No agents yet", "A replay needs an agent that has runs. Create one with:", "agent-runner agents apply agent.yaml"));
  const module = modules.find((m) => m.digest === query.get("module"));
  const name = query.get("agent") ?? agentOf(agents, module)?.name ?? agents[0].name;
  return h("section", { class: "narrow" }, crumbs, title,
    h("p", { class: "lead" }, "Each run is replayed twice, as it was and with the candidate, and both are compared. Your users notice nothing."),
    form(agents, modules, await load(name, signal), module, Number(query.get("version")) || 0));
}

// agentOf returns an agent that uses a version of a module, or undefined.
const agentOf = (agents, module) => module && agents.find((a) => a.modules.some((x) => entryIs(x, module)));
const entryIs = (entry, module) => module.names.some((n) => n.name === entry.module.split("@")[0]) || entry.digest === module.digest;

function form(agents, modules, loaded, module, version) {
  const { agent } = loaded;
  const place = h("div");
  const button = h("button", { type: "submit", class: "main" }, "Start the replay");
  const name = h("select", { onchange: () => {
    const to = new URLSearchParams({ agent: name.value, ...(module ? { module: module.digest } : {}) });
    for (const control of name.form.elements) control.disabled = true; // the page of the other agent replaces this one
    location.hash = `#/try?${to}`;
  } },
    agents.map((a) => h("option", { value: a.name, selected: a.name === agent.name }, a.name)));
  const versions = versionChoice(loaded, version || agent.version);
  const suggested = module ?? modules.find((m) => agent.modules.some((x) => entryIs(x, m)));
  const chosen = h("select", null, modules.map((m) => h("option", { value: m.digest, selected: m === suggested }, nameOf(m))));
  const fits = () => agent.modules.find((x) => entryIs(x, modules.find((m) => m.digest === chosen.value) ?? { names: [] }))?.name;
  const entry = h("select", null, agent.modules.map((x) => h("option", { value: x.name, selected: x.name === fits() }, x.name)));
  chosen.addEventListener("change", () => fits() && (entry.value = fits()));
  const limit = h("input", { type: "number", min: "1", max: "1000", value: "100", required: true, inputmode: "numeric" });
  const since = h("select", null, times.map(([days, text]) => h("option", { value: days }, text)));
  const which = h("div");
  let kind = module && agent.modules.length > 0 ? "module" : "version";
  const draw = () => fill(which, kind === "version" ? field("Version", versions, "The whole agent as this version has it.")
    : h("div", { class: "properties" }, field("Module", chosen), field("Instead of the entry", entry, "Everything else stays as it was in each run.")));
  const pick = (k) => () => {
    kind = k;
    draw();
  };
  draw();
  return h("form", { class: "stack", method: "post", onsubmit: asyncAction(button, place, async () => {
    const runs = { limit: Number(limit.value), ...(since.value ? { since: new Date(Date.now() - Number(since.value) * day).toISOString() } : {}) };
    const candidate = kind === "version" ? { version: Number(versions.value) } : { module: chosen.value, entry: entry.value };
    const r = await call("POST", `/v1/agents/${encodeURIComponent(agent.name)}/replays`, { body: { ...candidate, runs } });
    location.hash = `#/replays/${r.id}`;
  }) },
  h("div", { class: "card stack" }, h("h2", null, "What to try"), field("Agent", name),
    modules.length > 0 && agent.modules.length > 0 && h("fieldset", null, h("legend", null, "Candidate"), h("div", { class: "checks" },
      choice("kind", "version", "A version of the agent", kind === "version", pick("version")), choice("kind", "module", "One module, replaced", kind === "module", pick("module")))), which),
  h("div", { class: "card stack" }, h("h2", null, "On which runs"), h("div", { class: "properties" }, field("The last runs", limit, "The newest that have ended, at most 1,000."), field("Started", since))),
  place, h("div", null, button));
}
