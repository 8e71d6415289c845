// The page of rollouts: the active rollouts of all agents, and the aliases and rollouts of one agent.
import { h, icon } from "../dom.js";
import { asyncAction, badge, confirmButton, emptyState, field, relativeTime, table } from "../parts.js";
import { get, all, call } from "../api.js";
import { openSheet } from "../dialog.js";
import { toast } from "../toast.js";
import { load, parts, rolloutStatus, sentence, versionChoice } from "../release.js";

const maxMoves = 20; // moves of an alias that are shown
const maxRollouts = 50;
const maxAgents = 30; // agents whose aliases are shown at once

export async function rollouts({ query, signal, again }) {
  const name = query.get("agent") ?? "";
  const [agents, active] = await Promise.all([all("/v1/agents", "agents", signal), all("/v1/rollouts", "rollouts", signal)]);
  const select = h("select", { "aria-label": "Agent", onchange: () => (location.hash = select.value ? `#/rollouts?${new URLSearchParams({ agent: select.value })}` : "#/rollouts") },
    h("option", { value: "" }, "All agents"), agents.map((a) => h("option", { value: a.name, selected: a.name === name }, a.name)));
  const here = active.filter((r) => !name || r.agent === name);
  return h("section", null, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Rollouts"), agents.length > 1 && select,
    agents.length > 0 && h("a", { class: "button main", href: `#/canary${name ? `?${new URLSearchParams({ agent: name })}` : ""}` }, icon("rollouts"), "Start a canary")),
  h("p", { class: "lead" }, "A canary gives a new version to a small part of the runs. It is compared with the stable version all the time, and rolled back by itself if it does worse."),
  agents.length === 0 ? emptyState("agents", "No agents yet", "A rollout needs an agent with two versions. Create one with:", "agent-runner agents apply agent.yaml")
    : [h("section", null, h("h2", null, "Active"), here.length > 0 ? h("div", { class: "rows" }, here.map(card)) : h("p", { class: "empty" }, "No rollout is active.")), name ? await one(name, signal, again) : await overview(agents, signal)]);
}

// card is a link to an active rollout.
function card(r) {
  return h("a", { href: `#/rollouts/${r.id}` }, h("span", null, h("b", null, `${r.agent}@${r.alias}`), h("span", { class: "soft" }, ` version ${r.stable} → ${r.canary}`)),
    h("span", null, parts([[100 - r.percent, "stable"], [r.percent, "canary"]]), h("span", { class: "small soft" }, `${r.percent} % of ${r.plan.by === "thread" ? "threads" : "runs"}, step ${r.step} of ${r.plan.steps.length}`)), rolloutStatus(r));
}

// overview lists agents with their aliases.
async function overview(agents, signal) {
  const shown = [...agents].sort((a, b) => Date.parse(b.created) - Date.parse(a.created)).slice(0, maxAgents);
  const aliases = await Promise.all(shown.map((a) => all(`/v1/agents/${encodeURIComponent(a.name)}/aliases`, "aliases", signal)));
  return h("section", null, h("h2", null, "Agents"), table("Agents", ["Agent", "Runs use", "Newest version", "Other aliases", "Changed"], shown.map((a, i) => {
    const stable = aliases[i].find((x) => x.alias === "stable");
    return h("tr", null, h("td", null, h("a", { href: `#/rollouts?${new URLSearchParams({ agent: a.name })}` }, a.name)), h("td", null, stable ? [badge("stable", "info"), ` version ${stable.version}`] : `version ${a.version}, the newest`),
      h("td", null, `version ${a.version}`, stable && stable.version !== a.version && [" ", badge("not released", "warn")]), h("td", null, aliases[i].filter((x) => x !== stable).map((x) => badge(`${x.alias} ${x.version}`))), h("td", { class: "soft nowrap" }, relativeTime(a.created)));
  })), agents.length > shown.length && h("p", { class: "soft small" }, "Only the agents that changed last are shown. The list above has all."));
}

// one shows the aliases and the rollouts of an agent.
async function one(name, signal, again) {
  const path = `/v1/agents/${encodeURIComponent(name)}`;
  const [loaded, { rollouts: list }] = await Promise.all([load(name, signal), get(`${path}/rollouts?limit=${maxRollouts}`, signal)]);
  const moves = await Promise.all(loaded.aliases.map((a) => get(`${path}/aliases/${encodeURIComponent(a.alias)}/moves?limit=${maxMoves}`, signal).then((x) => x.moves)));
  const ended = list.filter((r) => r.ended);
  return [
    h("section", null, h("div", { class: "head" }, h("h2", { class: "grow" }, "Aliases"), h("button", { type: "button", onclick: () => move(loaded, undefined, again) }, "New alias")),
      h("p", { class: "soft" }, loaded.aliases.some((a) => a.alias === "stable") ? `Runs of ${name} get the version of the alias stable.` : `Without an alias stable, runs of ${name} get the newest version, ${loaded.agent.version}.`),
      table("Aliases", ["Alias", "Version", "Since", "Why", "Action"], loaded.aliases.map((a, i) => h("tr", null, h("td", null, badge(a.alias, "info")), h("td", null, h("a", { href: `#/agents/${name}?version=${a.version}` }, `Version ${a.version}`)),
        h("td", { class: "soft nowrap" }, relativeTime(a.updated)), h("td", { class: "wide soft" }, moves[i][0]?.reason, moves[i][0] && h("span", { class: "small" }, ` by ${moves[i][0].by}`)),
        h("td", null, h("div", { class: "buttons" }, h("button", { type: "button", class: "quiet", "aria-label": `Move ${a.alias}`, onclick: () => move(loaded, a, again) }, "Move"), confirmButton("Delete", "Delete the alias?", async () => {
          await call("DELETE", `${path}/aliases/${encodeURIComponent(a.alias)}`);
          toast("Deleted.");
          await again();
        }))))), "No aliases."),
      loaded.aliases.map((a, i) => moves[i].length > 0 && h("details", null, h("summary", null, `Moves of ${a.alias}`), history(moves[i])))),
    h("section", null, h("h2", null, "Ended rollouts"), table("Ended rollouts", ["Rollout", "Status", "Reached", "Why", "Ended"], ended.map((r) => h("tr", null,
      h("td", { class: "nowrap" }, h("a", { href: `#/rollouts/${r.id}` }, `${r.alias}: version ${r.stable} → ${r.canary}`)), h("td", null, rolloutStatus(r)), h("td", { class: "nowrap" }, `${r.percent} %`), h("td", { class: "wide soft" }, sentence(r.reason)), h("td", { class: "soft nowrap" }, relativeTime(r.ended)))),
    "No rollout has ended."))];
}

function history(moves) {
  return table("Moves", ["When", "From", "To", "Why", "By"], moves.map((m) => h("tr", null, h("td", { class: "soft nowrap" }, relativeTime(m.created)), h("td", { class: "nowrap" }, m.from ? `version ${m.from}` : "new"), h("td", { class: "nowrap" }, m.to ? `version ${m.to}` : "deleted"), h("td", { class: "wide" }, m.reason), h("td", { class: "soft" }, m.by))));
}

// move opens the form that sets an alias.
function move(loaded, alias, again) {
  openSheet(alias ? `Move ${alias.alias}` : "New alias", (close) => {
    const name = h("input", { type: "text", required: true, maxlength: "63", pattern: "[a-z0-9][a-z0-9._\\-]*", placeholder: "stable", spellcheck: "false", autocapitalize: "none", title: "Lowercase letters, digits, dots, dashes and underscores" });
    if (alias) name.value = alias.alias;
    const version = versionChoice(loaded, undefined, alias?.version);
    const why = h("input", { type: "text", maxlength: "1000", placeholder: "optional" });
    const place = h("div");
    const go = h("button", { type: "submit", class: "main" }, alias ? "Move" : "Create");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      await call("PUT", `/v1/agents/${encodeURIComponent(loaded.agent.name)}/aliases/${encodeURIComponent(name.value.trim())}`, { body: { version: Number(version.value), ...(why.value.trim() ? { reason: why.value.trim() } : {}) } });
      close();
      toast(alias ? "Moved." : "Created.");
      await again();
    }) }, alias ? h("p", { class: "soft" }, "All runs get the other version at once. A canary gives it to a part of them first.") : field("Alias", name), field("Version", version), field("Reason", why), place, h("div", null, go));
  });
}
