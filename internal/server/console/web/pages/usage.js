// Usage: charts of finished runs over time, and the counters by day, agent and module.
import { h } from "../dom.js";
import { field, table, properties, emptyState } from "../parts.js";
import { count, short, bytes, duration } from "../format.js";
import { get } from "../api.js";
import { chart, colors } from "../charts.js";
import { moduleNames, moduleLink } from "../names.js";

const day = 86400000; // milliseconds
const ranges = { day: ["Last 24 hours", 1, "hour"], week: ["Last 7 days", 7, "hour"], month: ["Last 30 days", 30, "day"], quarter: ["Last 90 days", 90, "day"] };
const groupings = { agent: "Agent", version: "Agent and version", module: "Module", model: "Model", all: "Nothing" };
const date = (t) => new Date(t).toISOString().slice(0, 10);

export async function usage({ query, signal }) {
  const range = Object.hasOwn(ranges, query.get("range")) ? query.get("range") : "week";
  const by = Object.hasOwn(groupings, query.get("by")) ? query.get("by") : "agent";
  const agent = query.get("agent") ?? "";
  const [, days, bucket] = ranges[range];
  const to = Date.now();
  const from = to - days * day;
  const q = new URLSearchParams({ bucket, from: new Date(from).toISOString(), to: new Date(to).toISOString(), ...(agent ? { agent } : {}) });
  const [all, groups, u, names] = await Promise.all([
    get(`/v1/series?${q}`, signal), get(`/v1/series?${q}&by=${by}&groups=${colors}`, signal),
    get(`/v1/usage?${new URLSearchParams({ from: date(from), to: date(to) })}`, signal), moduleNames(signal)]);
  return h("section", null, h("h1", { tabindex: "-1" }, "Usage"), filters(range, by, agent), tiles(all, u),
    all.groups.length === 0 ? emptyState("usage", "No runs finished in this time", "Charts appear here once runs finish.", h("a", { class: "button", href: "#/start" }, "Start a run")) : charts(groups, by, names),
    h("h2", null, "By day, agent and module"), rows(u.rows, names), h("p", { class: "soft small" }, "Days are in UTC. A row without a module is the agent itself: its runs and model calls. For a module, calls are hook calls."));
}

function filters(range, by, agent) {
  const select = (list, now) => h("select", { onchange: () => go() }, list.map(([value, text]) => h("option", { value, selected: value === now }, text)));
  const time = select(Object.entries(ranges).map(([k, [text]]) => [k, text]), range);
  const group = select(Object.entries(groupings), by);
  const name = h("input", { type: "search", value: agent, placeholder: "all", maxlength: "63", autocapitalize: "none", spellcheck: "false" });
  const go = (e) => {
    e?.preventDefault();
    location.hash = `#/usage?${new URLSearchParams({ range: time.value, by: group.value, ...(name.value.trim() ? { agent: name.value.trim() } : {}) })}`;
  };
  return h("form", { class: "filters", role: "search", "aria-label": "Filter usage", onsubmit: go }, field("Time", time), field("Group by", group), field("Agent", name), h("button", { type: "submit" }, "Show"));
}

function tiles(all, u) {
  const t = all.groups[0]?.total ?? { runs: 0, failed: 0, latency_p95_ms: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0, faults: 0, denials: 0 };
  return h("div", { class: "tiles" }, properties(["Runs", count(t.runs)], ["Failed", t.runs > 0 ? `${((100 * t.failed) / t.runs).toFixed(1)} %` : "–"], ["Latency, p95", duration(Math.round(t.latency_p95_ms * 1000))],
    ["Tokens", short(t.prompt_tokens + t.completion_tokens)], ["Cost", all.currency && money(all.currency)(t.cost)], ["Faults", count(t.faults)], ["Denials", count(t.denials)], ["Journals stored", bytes(u.kept.journal_bytes)]));
}

const money = (currency) => (n) => {
  try {
    return new Intl.NumberFormat("en", { style: "currency", currency, maximumFractionDigits: n < 1 ? 4 : 2 }).format(n);
  } catch {
    return `${n.toFixed(4)} ${currency}`; // not a currency of ISO 4217
  }
};

function charts(groups, by, names) {
  const length = groups.bucket === "hour" ? 3600000 : day;
  const first = Date.parse(groups.from);
  const times = Array.from({ length: Math.min(2000, Math.ceil((Date.parse(groups.to) - first) / length)) }, (_, i) => first + i * length);
  const place = (start) => Math.round((Date.parse(start) - first) / length);
  const name = (g) => ({ agent: g.agent, version: `${g.agent} v${g.version ?? "?"}`, module: names.get(g.module) ?? g.module?.slice(7, 19), model: g.model, all: "All runs" })[by] || "others";
  const series = (value, otherwise = 0) => groups.groups.map((g) => {
    const values = times.map(() => otherwise);
    for (const p of g.points) if (place(p.start) in values) values[place(p.start)] = value(p);
    return { name: name(g), values };
  });
  const options = { month: "short", day: "numeric", timeZone: "UTC", ...(groups.bucket === "hour" ? { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } : {}) };
  const when = (t) => new Date(t).toLocaleString("en", options);
  const make = (title, values, show, kind, empty) => chart({ title, times, series: values, show, kind, when, empty });
  return [h("div", { class: "charts" },
    make("Runs", series((p) => p.runs), count, "bars", "No runs."),
    by !== "model" && make("Latency, p95", series((p) => p.latency_p95_ms, null), (ms) => duration(Math.round(ms * 1000)), "lines", "No runs."),
    make("Tokens", series((p) => p.prompt_tokens + p.completion_tokens), short, "bars", "No tokens."),
    groups.currency && make("Cost", series((p) => p.cost), money(groups.currency), "bars", "No costs."),
    make("Faults", series((p) => p.faults), count, "bars", "No faults."),
    make("Denied tool calls", series((p) => p.denials), count, "bars", "No denials.")),
  groups.more_groups > 0 && h("p", { class: "soft small" }, `${count(groups.more_groups)} smaller groups are not shown.`)];
}

export function totals(t, kept) {
  return h("div", { class: "tiles" }, properties(["Runs", count(t.runs)], ["Prompt tokens", count(t.prompt_tokens)], ["Answer tokens", count(t.completion_tokens)], ["Fuel", short(t.fuel)],
    ["Journal written", bytes(t.journal_bytes)], ["Journals stored", bytes(kept.journal_bytes)]));
}

export function rows(list, names) {
  return table("Usage", ["Day", "Agent", "Module", "#Runs", "#Calls", "#Tokens", "#Fuel", "#Time", "#Journal"], list.map((r) => h("tr", null, h("td", { class: "nowrap" }, r.day), h("td", null, r.agent),
    h("td", null, r.module && moduleLink(r.module, names)), h("td", { class: "number" }, count(r.runs)), h("td", { class: "number" }, count(r.calls)),
    h("td", { class: "number" }, count(r.prompt_tokens + r.completion_tokens)), h("td", { class: "number" }, count(r.fuel)), h("td", { class: "number nowrap" }, duration(r.wall_ms * 1000)), h("td", { class: "number nowrap" }, bytes(r.journal_bytes)))), "No usage.");
}
