// An agent: a version of its file, its modules, its aliases, and the comparison of versions.
import { h, fill, icon } from "../dom.js";
import { table, relativeTime, digest, properties, warnings, confirmButton, copyButton, errorMessage, badge } from "../parts.js";
import { get, all, call } from "../api.js";
import { textDiff } from "../history.js";
import { toast } from "../toast.js";

const maxVersions = 200; // versions in a choice

export async function agent({ id, query, signal }) {
  const path = `/v1/agents/${encodeURIComponent(id)}`;
  const version = Number(query.get("version")) || 0;
  const newest = await get(path, signal);
  const [a, aliases] = await Promise.all([version > 0 && version !== newest.version ? get(`${path}?version=${version}`, signal) : newest,
    all(`${path}/aliases`, "aliases", signal).catch(() => [])]);
  const names = (v) => aliases.filter((x) => x.version === v).map((x) => x.alias).join(", ");
  const versions = Array.from({ length: Math.min(newest.version, maxVersions) }, (_, i) => newest.version - i);
  const option = (v, chosen) => h("option", { value: v, selected: v === chosen }, `version ${v}${[v === newest.version && "newest", names(v)].filter(Boolean).map((x) => ` · ${x}`).join("")}`);
  const select = h("select", { "aria-label": "Version", onchange: () => (location.hash = `#/agents/${id}?version=${select.value}`) }, versions.map((v) => option(v, a.version)));
  return h("article", null, h("p", { class: "crumbs" }, h("a", { href: "#/agents" }, "Agents"), "/", h("span", null, a.name)),
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, a.name), select,
      h("a", { class: "button", href: `#/edit/${encodeURIComponent(a.name)}${a.version === newest.version ? "" : `?version=${a.version}`}` }, "Edit"),
      h("a", { class: "button", href: `#/runs?agent=${encodeURIComponent(a.name)}` }, "Runs"),
      h("a", { class: "button", href: `#/try?${new URLSearchParams({ agent: a.name, version: a.version })}` }, icon("replay"), "Try this version on stored runs"),
      h("a", { class: "button main", href: `#/start?agent=${encodeURIComponent(a.name)}` }, "Start a run"),
      confirmButton("Delete", "Delete all versions?", async () => {
        await call("DELETE", path);
        toast("Deleted.");
        location.hash = "#/agents";
      })),
    properties(["Version", a.version], ["Aliases", names(a.version) && names(a.version).split(", ").map((x) => badge(x, "info"))], ["Changed", relativeTime(a.created)], ["Release", h("a", { href: `#/rollouts?${new URLSearchParams({ agent: a.name })}` }, "Aliases and rollouts")]),
    warnings(a.warnings),
    h("section", null, h("h2", null, "Modules"), table("Modules of the agent", ["At", "Entry", "Module", "Digest"], a.modules.map((m) => h("tr", null, h("td", null, h("code", null, m.at)), h("td", null, m.name),
      h("td", null, h("a", { href: `#/modules/${m.digest}` }, m.module)), h("td", null, digest(m.digest)))), "No modules.")),
    h("section", null, h("div", { class: "head" }, h("h2", { class: "grow" }, "agent.yaml"), copyButton(a.yaml, "Copy the file")), h("pre", { class: "yaml", tabindex: "0" }, a.yaml)),
    newest.version > 1 && comparison(path, a, versions.filter((v) => v !== a.version), option, signal));
}

// comparison shows the difference to another version, when it is opened.
function comparison(path, a, others, option, signal) {
  const place = h("div");
  const begin = others.find((v) => v < a.version) ?? others[0];
  const select = h("select", { "aria-label": "Compare with", onchange: () => show() }, others.map((v) => option(v, begin)));
  const show = async () => {
    try {
      const before = await get(`${path}?version=${select.value}`, signal);
      const digests = (x) => x.modules.map((m) => `${m.name} ${m.digest}`).join("\n");
      fill(place, before.yaml === a.yaml ? h("p", { class: "soft" }, "The file is the same.") : textDiff(`agent.yaml: version ${before.version} → ${a.version}`, before.yaml, a.yaml, "code"),
        digests(before) !== digests(a) && textDiff("modules", digests(before), digests(a), "code"));
    } catch (e) {
      if (!signal.aborted) fill(place, errorMessage(e));
    }
  };
  const d = h("details", { ontoggle: () => d.open && place.childElementCount === 0 && show() }, h("summary", null, "Compare versions"), h("div", { class: "filters" }, select), place);
  return h("section", null, d);
}
