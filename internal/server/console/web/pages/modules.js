// Modules: their names, capabilities and warnings.
import { h, fill } from "../dom.js";
import { emptyState, asyncAction, table, relativeTime, digest, badge, properties, json, confirmButton, warnings, plural } from "../parts.js";
import { bytes, count, short } from "../format.js";
import { get, all, call } from "../api.js";

const recentRuns = 50; // runs that are searched for faults

const displayName = (m) => m.names[0]?.name ?? m.about.name ?? m.digest.slice(7, 19);

export async function modules({ signal }) {
  const list = await all("/v1/modules", "modules", signal);
  return h("section", null, h("h1", { tabindex: "-1" }, "Modules"),
    table("Modules", ["Module", "Hooks", "Powers", "#Size", "Uploaded"], list.map((m) => h("tr", null,
      h("td", null, h("a", { href: `#/modules/${m.digest}` }, displayName(m)), h("span", { class: "soft" }, m.names[0] ? ` ${m.names[0].version}` : ""), m.blocked && badge("blocked", "bad")),
      h("td", { class: "wide" }, m.about.hooks.map((x) => badge(x))),
      h("td", { class: "wide" }, m.about.grants.map((x) => badge(x, "info")), m.about.warnings.length > 0 && badge(plural(m.about.warnings.length, "warning"), "warn")),
      h("td", { class: "number nowrap" }, bytes(m.size)), h("td", { class: "soft nowrap" }, relativeTime(m.created)))), emptyState("modules", "No modules yet", "A module is a middleware that agents run with. Upload one with:", "agent-runner modules push PATH")));
}

// faults counts a module's faults in the last runs, when asked to. The last event of a finished
// run counts them.
function faults(m, signal) {
  const found = h("div", { role: "status" });
  const place = h("div");
  const b = h("button", { type: "button" }, "Search for faults");
  b.addEventListener("click", asyncAction(b, place, async () => {
    const runs = (await get(`/v1/runs?limit=${recentRuns}&status=finished`, signal)).runs.filter((r) => r.modules?.some((x) => x.digest === m.digest));
    const hits = [];
    for (const r of runs) {
      const last = (await get(`/v1/runs/${encodeURIComponent(r.id)}/events?after=${Math.max(0, r.last_event - 1)}`, signal)).events.at(-1);
      const n = (last?.entries ?? []).filter((s) => s.digest && m.digest.endsWith(s.digest)).reduce((sum, s) => sum + (s.faults ?? 0), 0);
      if (n > 0) hits.push([r, n]);
    }
    fill(found, h("p", { class: "soft small" }, `${runs.length} of the last ${recentRuns} finished runs used this module.`),
      table("Runs with faults", ["Run", "#Faults", "Started"], hits.map(([r, n]) => h("tr", null, h("td", { class: "wide" }, h("a", { href: `#/runs/${r.id}` }, r.title || r.id)), h("td", { class: "number bad" }, count(n)), h("td", { class: "soft nowrap" }, relativeTime(r.created)))),
        "No faults in these runs."));
  }));
  return h("section", null, h("h2", null, "Faults"), found, place, b);
}

function powers(list, empty) {
  return table("Powers", ["Power", "What it does", "Grant"], list.map((p) => h("tr", null, h("td", null, h("code", null, p.name)), h("td", { class: "wide" }, p.does),
    h("td", null, p.grant ? badge(p.grant, "info") : h("span", { class: "soft" }, "none needed")))), empty);
}

export async function module({ id, signal }) {
  const m = await get(`/v1/modules/${encodeURIComponent(id)}`, signal);
  const a = m.about;
  return h("article", null, h("p", { class: "crumbs" }, h("a", { href: "#/modules" }, "Modules"), " / ", digest(m.digest)),
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, displayName(m)), confirmButton("Delete", "Delete permanently?", async () => {
      await call("DELETE", `/v1/modules/${encodeURIComponent(m.digest)}`);
      location.hash = "#/modules";
    })),
    a.description && h("p", null, a.description),
    m.blocked && h("p", { class: "wrong", role: "alert" }, `Blocked by the operator: ${m.blocked}`),
    properties(["Reported name", a.name && `${a.name} ${a.version ?? ""}`], ["Kind", m.kind], ["Transport", a.transport], ["Size", bytes(m.size)], ["Messages", a.messages], ["Uploaded", relativeTime(m.created)]),
    warnings(a.warnings),
    faults(m, signal),
    h("section", null, h("h2", null, "Hooks"), h("p", null, a.hooks.length > 0 ? a.hooks.map((x) => badge(x)) : "None.")),
    h("section", null, h("h2", null, "Powers that need a grant"), powers(a.powers.filter((p) => p.grant), "None: the module cannot reach anything outside the run.")),
    h("details", null, h("summary", null, "Powers without a grant"), powers(a.powers.filter((p) => !p.grant), "None.")),
    h("section", null, h("h2", null, "Limits"), properties(["Memory", bytes(a.limits.memory_bytes)], ["Fuel per hook call", short(a.limits.fuel)], ["Fuel per run", short(a.limits.run_fuel)], ["Time per hook call", a.limits.timeout],
      ["Input", bytes(a.limits.input_bytes)], ["Output", bytes(a.limits.output_bytes)], ["Host calls per hook call", count(a.limits.host_calls)])),
    h("section", null, h("h2", null, "Names"), table("Names", ["Name", "Version"], m.names.map((n) => h("tr", null, h("td", null, n.name), h("td", null, n.version))), "No names, only the digest."), h("p", { class: "small soft" }, h("code", null, m.digest))),
    a.config_schema && h("details", null, h("summary", null, "Configuration, as JSON Schema"), json(a.config_schema)));
}
