// The page of a module: its description, its capabilities, and the agents that use it.
import { h, fill, icon } from "../dom.js";
import { asyncAction, table, relativeTime, digest, badge, properties, json, confirmButton, warnings, field } from "../parts.js";
import { bytes, count, short } from "../format.js";
import { get, call, isOperator } from "../api.js";
import { deleteNames, nameOf } from "../names.js";
import { openSheet } from "../dialog.js";
import { toast } from "../toast.js";

const maxVersions = 8; // versions of an agent that are listed
const recentRuns = 10; // runs with faults that are shown

export async function module({ id, signal, again }) {
  const m = await get(`/v1/modules/${encodeURIComponent(id)}`, signal);
  const a = m.about;
  const remove = confirmButton("Delete", "Delete permanently?", async () => {
    await call("DELETE", `/v1/modules/${encodeURIComponent(m.digest)}`);
    deleteNames();
    toast("Deleted.");
    location.hash = "#/modules";
  });
  const name = m.names[0]?.name ?? a.name ?? nameOf(m);
  return h("article", null, h("p", { class: "crumbs" }, h("a", { href: "#/modules" }, "Modules"), "/", h("span", null, name)),
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, name, " ", h("span", { class: "soft" }, m.names[0]?.version ?? a.version)), isOperator() && block(m, again), remove,
      !isOperator() && h("a", { class: "button main", href: `#/try?${new URLSearchParams({ module: m.digest })}` }, icon("replay"), "Try this version on stored runs")),
    a.description && h("p", { class: "lead" }, a.description),
    m.blocked && h("p", { class: "wrong", role: "alert" }, `Blocked by the operator: ${m.blocked}`),
    properties(["Digest", digest(m.digest)], ["Reported name", a.name && `${a.name} ${a.version ?? ""}`], ["Kind", m.kind], ["Transport", a.transport], ["Size", bytes(m.size_bytes)], ["Receives messages", a.messages], ["Uploaded", relativeTime(m.created)]),
    h("div", { class: "pair" },
      h("section", { class: "card" }, h("h2", null, "Hooks"), a.hooks.length > 0 ? h("p", null, a.hooks.map((x) => badge(x))) : h("p", { class: "soft" }, "None."),
        h("h2", null, "Names"), m.names.length > 0 ? h("p", null, m.names.map((n) => badge(`${n.name} ${n.version}`))) : h("p", { class: "soft" }, "No names, only the digest.")),
      h("section", { class: "card" }, h("h2", null, "Used by"), m.users?.length > 0
        ? h("ul", { class: "plain" }, m.users.map((u) => h("li", null, h("a", { href: `#/agents/${u.agent}` }, u.agent), " ", versions(u), u.aliases?.map((x) => badge(x, "info")), !u.versions.includes(u.newest) && h("span", { class: "soft small" }, ` The newest version, ${u.newest}, does not.`))))
        : h("p", { class: "soft" }, "No agent uses it in its newest version, or in one that an alias refers to."))),
    h("section", null, h("h2", null, "Powers that need a grant"), powers(a.powers.filter((p) => p.grant), "None: the module cannot reach anything outside the run."),
      h("details", null, h("summary", null, "Powers without a grant"), powers(a.powers.filter((p) => !p.grant), "None."))),
    warnings(a.warnings),
    await faults(m, signal),
    h("section", null, h("h2", null, "Limits"), h("p", { class: "soft small" }, "The defaults. An agent can set others."), properties(["Memory", bytes(a.limits.memory_bytes)], ["Fuel per hook call", short(a.limits.fuel)], ["Fuel per run", short(a.limits.run_fuel)], ["Time per hook call", a.limits.timeout],
      ["Input", bytes(a.limits.input_bytes)], ["Output", bytes(a.limits.output_bytes)], ["Host calls per hook call", count(a.limits.host_calls)])),
    a.config_schema && h("details", null, h("summary", null, "Configuration, as JSON Schema"), json(a.config_schema)));
}

// versions lists the versions of an agent that use the module, the newest first.
function versions(u) {
  const shown = u.versions.slice(0, maxVersions);
  return h("span", { class: "soft" }, u.versions.length === 1 ? "version " : "versions ", shown.map((v, i) => [i > 0 && ", ", h("a", { href: `#/agents/${u.agent}?version=${v}` }, String(v))]), u.versions.length > maxVersions && ` and ${u.versions.length - maxVersions} older ones`, " ");
}

// block makes the operator's button that blocks or unblocks a module.
function block(m, again) {
  const path = `/v1/blocks/${encodeURIComponent(m.digest)}`;
  if (m.blocked) {
    return confirmButton("Unblock", "Unblock this module?", async () => {
      await call("DELETE", path);
      toast("Unblocked.");
      await again();
    });
  }
  return h("button", { type: "button", class: "quiet", onclick: () => openSheet("Block this module", (close) => {
    const why = h("input", { type: "text", required: true, maxlength: "1000" });
    const place = h("div");
    const go = h("button", { type: "submit", class: "bad" }, "Block for all tenants");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      await call("PUT", path, { body: { reason: why.value.trim() } });
      close();
      toast("Blocked.");
      await again();
    }) }, h("p", { class: "soft" }, "Within a second, no server of the database calls it any more, for any tenant. Active runs that use it end."),
    field("Reason", why, "Tenants whose runs end see this reason."), place, h("div", null, go));
  }) }, "Block");
}

// faults shows the newest runs in which the module's hooks may have failed, and a link to all.
async function faults(m, signal) {
  const { runs } = await get(`/v1/runs?${new URLSearchParams({ module: m.digest, faults: "true", limit: recentRuns })}`, signal);
  return h("section", null, h("div", { class: "head" }, h("h2", { class: "grow" }, "Runs with faults"), h("a", { class: "button", href: `#/runs?${new URLSearchParams({ module: m.digest })}` }, "All runs")),
    table("Runs with faults", ["Run", "#Faults", "Started"], runs.map((r) => h("tr", null, h("td", { class: "wide" }, h("a", { href: `#/runs/${r.id}` }, r.title || r.id)), h("td", { class: "number bad" }, count(r.faults)), h("td", { class: "soft nowrap" }, relativeTime(r.created)))),
      "None of the stored runs that use this module has a fault."));
}

function powers(list, empty) {
  return table("Powers", ["Power", "What it does", "Grant"], list.map((p) => h("tr", null, h("td", null, h("code", null, p.name)), h("td", { class: "wide" }, p.does),
    h("td", null, p.grant ? badge(p.grant, "info") : h("span", { class: "soft" }, "none needed")))), empty);
}
