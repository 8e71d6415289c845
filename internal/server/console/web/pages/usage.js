// Usage by day, agent and module.
import { h } from "../dom.js";
import { field, table, properties } from "../parts.js";
import { count, bytes, duration } from "../format.js";
import { get } from "../api.js";
import { moduleNames, moduleLink } from "../names.js";

const day = (t) => t.toISOString().slice(0, 10);

export async function usage({ query, signal }) {
  const from = query.get("from") || day(new Date(Date.now() - 6 * 86400000));
  const to = query.get("to") || day(new Date());
  const [u, names] = await Promise.all([get(`/v1/usage?${new URLSearchParams({ from, to })}`, signal), moduleNames(signal)]);
  const first = h("input", { type: "date", value: from, required: true });
  const last = h("input", { type: "date", value: to, required: true });
  return h("section", null, h("h1", { tabindex: "-1" }, "Usage"),
    h("form", { class: "filters", role: "search", "aria-label": "Days", onsubmit: (e) => {
      e.preventDefault();
      location.hash = `#/usage?${new URLSearchParams({ from: first.value, to: last.value })}`;
    } }, field("From", first), field("To", last), h("button", { type: "submit" }, "Show")),
    totals(u.total, u.kept), rows(u.rows, names), h("p", { class: "soft small" }, "Days are in UTC. A row without a module is the agent itself: its runs and model calls. For a module, calls are hook calls."));
}

export function totals(t, kept) {
  return h("div", { class: "tiles" }, properties(["Runs", count(t.runs)], ["Prompt tokens", count(t.prompt_tokens)], ["Answer tokens", count(t.completion_tokens)], ["Fuel", count(t.fuel)],
    ["Journal written", bytes(t.journal_bytes)], ["Journals stored", bytes(kept.journal_bytes)]));
}

export function rows(list, names) {
  return table("Usage", ["Day", "Agent", "Module", "#Runs", "#Calls", "#Tokens", "#Fuel", "#Time", "#Journal"], list.map((r) => h("tr", null, h("td", { class: "nowrap" }, r.day), h("td", null, r.agent),
    h("td", null, r.module && moduleLink(r.module, names)), h("td", { class: "number" }, count(r.runs)), h("td", { class: "number" }, count(r.calls)),
    h("td", { class: "number" }, count(r.prompt_tokens + r.completion_tokens)), h("td", { class: "number" }, count(r.fuel)), h("td", { class: "number nowrap" }, duration(r.wall_ms * 1000)), h("td", { class: "number nowrap" }, bytes(r.journal_bytes)))), "No usage.");
}
