// Two runs next to each other: their figures, their modules and their conversations as a difference.
import { h } from "../dom.js";
import { table, statusOf, relativeTime, field, emptyState } from "../parts.js";
import { count, short, duration, textOf } from "../format.js";
import { get } from "../api.js";
import { textDiff } from "../history.js";

const choices = 100; // runs to choose from
const maxMessages = 100; // compared messages

export async function compare({ query, signal }) {
  const ids = [query.get("a") ?? "", query.get("b") ?? ""];
  const runs = await Promise.all(ids.map((id) => (id ? load(id, signal) : undefined)));
  const agent = runs.find(Boolean)?.run.agent;
  const list = (await get(`/v1/runs?${new URLSearchParams({ limit: choices, ...(agent ? { agent } : {}) })}`, signal)).runs;
  const selects = ids.map((id, i) => select(list, runs[i]?.run, i === 0 ? "First run" : "Second run"));
  const go = () => (location.hash = `#/compare?${new URLSearchParams({ a: selects[0].value, b: selects[1].value })}`);
  for (const s of selects) s.addEventListener("change", go);
  return h("section", null, h("p", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs"), "/", h("span", null, "Compare")),
    h("h1", { tabindex: "-1" }, "Compare runs"),
    h("div", { class: "pair" }, field("First run", selects[0]), field("Second run", selects[1])),
    runs.every(Boolean) ? comparison(...runs) : emptyState("runs", "Choose two runs", "Their figures, modules and conversations are compared."));
}

async function load(id, signal) {
  const path = `/v1/runs/${encodeURIComponent(id)}`;
  const [run, history] = await Promise.all([get(path, signal), get(`${path}/history`, signal).catch(() => ({ messages: [] }))]);
  return { run, messages: history.messages ?? [] };
}

function select(list, chosen) {
  const all = chosen && !list.some((r) => r.id === chosen.id) ? [chosen, ...list] : list;
  return h("select", { class: "wide" }, !chosen && h("option", { value: "" }, "Choose a run"),
    all.map((r) => h("option", { value: r.id, selected: r.id === chosen?.id }, `${(r.title || r.id).slice(0, 80)} · ${r.agent}${r.version ? ` v${r.version}` : ""} · ${new Date(r.created).toLocaleString("en")}`)));
}

function comparison(a, b) {
  const row = (name, value, show = (x) => x) => {
    const [x, y] = [value(a.run), value(b.run)];
    const differs = JSON.stringify(x) !== JSON.stringify(y);
    const more = typeof x === "number" && typeof y === "number" && x !== y ? h("span", { class: "soft small" }, ` ${y > x ? "+" : "−"}${show(Math.abs(y - x))}`) : null;
    return h("tr", { class: differs ? "differs" : "" }, h("th", { scope: "row" }, name), h("td", { class: "wide" }, show(x ?? "–")), h("td", { class: "wide" }, show(y ?? "–"), more));
  };
  const took = (r) => r.took_ms ?? new Date(r.updated) - new Date(r.created);
  return [
    h("section", null, h("h2", null, "Figures"), table("Figures", ["Figure", "First", "Second"], [
      h("tr", null, h("th", { scope: "row" }, "Run"), [a, b].map((x) => h("td", { class: "wide" }, h("a", { href: `#/runs/${x.run.id}` }, x.run.title || x.run.id)))),
      h("tr", null, h("th", { scope: "row" }, "Status"), [a, b].map((x) => h("td", null, statusOf(x.run)))),
      row("Agent", (r) => `${r.agent}${r.version ? ` v${r.version}` : ""}`), h("tr", null, h("th", { scope: "row" }, "Started"), [a, b].map((x) => h("td", null, relativeTime(x.run.created)))),
      row("Time", (r) => took(r), (ms) => duration(ms * 1000)), row("Steps", (r) => r.step, count), row("Tokens", (r) => r.usage.total_tokens, count), row("Fuel", (r) => r.fuel, short),
      a.run.faults !== undefined && row("Faults", (r) => r.faults, count), a.run.denials !== undefined && row("Denials", (r) => r.denials, count),
      row("Modules", (r) => (r.modules ?? []).map((m) => `${m.entry} ${(m.digest ?? "").replace("sha256:", "").slice(0, 8)}`).join(", "))].filter(Boolean))),
    h("section", null, h("h2", null, "Conversation"), conversation(a.messages, b.messages))];
}

const text = (m) => (m ? [textOf(m.content), ...(m.tool_calls ?? []).map((c) => `${c.function?.name}(${c.function?.arguments})`)].filter(Boolean).join("\n") : "");

function conversation(a, b) {
  const n = Math.min(maxMessages, Math.max(a.length, b.length));
  if (n === 0) return h("p", { class: "empty" }, "No messages.");
  return [h("ol", { class: "talk" }, Array.from({ length: n }, (_, i) => {
    const [x, y] = [text(a[i]), text(b[i])];
    const role = (b[i] ?? a[i]).role;
    if (x === y) return h("li", { class: `message ${role}` }, h("p", { class: "by" }, role, h("span", { class: "soft" }, "the same")), h("p", { class: "said" }, x));
    return h("li", { class: `message ${role}` }, textDiff(`${role}${a[i] ? (b[i] ? "" : ", only in the first run") : ", only in the second run"}`, x, y));
  })), Math.max(a.length, b.length) > n && h("p", { class: "soft" }, `Only the first ${n} messages are compared.`)];
}
