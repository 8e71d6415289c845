// Agents with their files and versions.
import { h, fill } from "../dom.js";
import { emptyState, table, relativeTime, digest, badge, properties, errorMessage, warnings, plural } from "../parts.js";
import { get, all } from "../api.js";
import { textDiff } from "../changes.js";

export async function agents({ signal }) {
  const list = await all("/v1/agents", "agents", signal);
  return h("section", null, h("h1", { tabindex: "-1" }, "Agents"),
    table("Agents", ["Agent", "#Version", "Modules", "Changed"], list.map((a) => h("tr", null,
      h("td", null, h("a", { href: `#/agents/${a.name}` }, a.name)), h("td", { class: "number" }, a.version),
      h("td", { class: "wide" }, a.modules.map((m) => badge(m.name)), a.warnings.length > 0 && badge(plural(a.warnings.length, "warning"), "warn")),
      h("td", { class: "soft nowrap" }, relativeTime(a.created)))), emptyState("agents", "No agents yet", "An agent is a model with an instruction, tools and modules. Create one with:", "agent-runner agents apply agent.yaml")));
}

export async function agent({ id, query, signal }) {
  const path = `/v1/agents/${encodeURIComponent(id)}`;
  const version = Number(query.get("version")) || 0;
  const newest = await get(path, signal);
  const a = version > 0 && version !== newest.version ? await get(`${path}?version=${version}`, signal) : newest;
  const select = h("select", { "aria-label": "Version" }, Array.from({ length: Math.min(newest.version, 200) }, (_, i) => newest.version - i)
    .map((v) => h("option", { value: v, selected: v === a.version }, `version ${v}${v === newest.version ? " (newest)" : ""}`)));
  select.addEventListener("change", () => {
    location.hash = `#/agents/${id}?version=${select.value}`;
  });
  return h("article", null, h("p", { class: "crumbs" }, h("a", { href: "#/agents" }, "Agents"), " / ", a.name),
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, a.name), select, h("a", { class: "button", href: `#/runs?agent=${encodeURIComponent(a.name)}` }, "Runs"), h("a", { class: "button main", href: `#/start?agent=${encodeURIComponent(a.name)}` }, "Start a run")),
    properties(["Version", a.version], ["Changed", relativeTime(a.created)]),
    warnings(a.warnings),
    h("section", null, h("h2", null, "Modules"), table("Modules of the agent", ["At", "Entry", "Module", "Digest"], a.modules.map((m) => h("tr", null, h("td", null, h("code", null, m.at)), h("td", null, m.name), h("td", null, h("a", { href: `#/modules/${m.digest}` }, m.module)),
      h("td", null, digest(m.digest)))), "No modules.")),
    h("section", null, h("h2", null, "agent.yaml"), h("pre", { class: "yaml", tabindex: "0" }, a.yaml), a.version > 1 && since(path, a, signal)));
}

// since shows the difference to the previous version when it is opened.
function since(path, a, signal) {
  const place = h("div");
  const d = h("details", null, h("summary", null, `Changes since version ${a.version - 1}`), place);
  d.addEventListener("toggle", async () => {
    if (!d.open || place.childElementCount > 0) return;
    try {
      const before = await get(`${path}?version=${a.version - 1}`, signal);
      const digests = (x) => x.modules.map((m) => `${m.name} ${m.digest}`).join("\n");
      fill(place, before.yaml === a.yaml ? h("p", { class: "soft" }, "The file is unchanged.") : textDiff("agent.yaml", before.yaml, a.yaml, "code"),
        digests(before) !== digests(a) && textDiff("modules", digests(before), digests(a), "code"));
    } catch (e) {
      if (!signal.aborted) fill(place, errorMessage(e));
    }
  });
  return d;
}
