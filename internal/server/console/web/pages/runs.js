// The list of runs, and the form that starts one.
import { h, fill, icon, announce } from "../dom.js";
import { field, emptyState, asyncAction, statusOf, relativeTime, shortDigest, badge, plural } from "../parts.js";
import { short, duration } from "../format.js";
import { get, all, call, pause, countdown, retryReason } from "../api.js";
import { moduleNames } from "../names.js";
import { draft, deleteDrafts } from "../drafts.js";

const pageSize = 50;
const updateInterval = 3000; // milliseconds between updates of the list

// The filters of the list, as they are in the address. since is a number of hours.
const filters = ["title", "status", "agent", "version", "module", "with", "since"];
const statuses = [["", "any"], ["running", "running"], ["paused", "needs an answer"], ["finished", "finished"], ["quarantined", "quarantined"]];
const troubles = [["", "anything"], ["faults", "faults"], ["denials", "denied tool calls"], ["error", "an error"], ["canceled", "a cancellation"]];
const times = [["", "any time"], ["1", "last hour"], ["24", "last 24 hours"], ["168", "last 7 days"], ["720", "last 30 days"]];

// parameters returns the query of the API for filters.
function parameters(filter, cursor) {
  const q = new URLSearchParams({ limit: pageSize });
  for (const name of ["title", "status", "agent", "version", "module"]) if (filter[name]) q.set(name, filter[name]);
  if (filter.with === "faults" || filter.with === "denials") q.set(filter.with, "true");
  else if (filter.with) q.set("finish_reason", filter.with);
  if (filter.since) q.set("created_from", new Date(Math.floor(Date.now() / 60000) * 60000 - Number(filter.since) * 3600000).toISOString());
  if (cursor) q.set("cursor", cursor);
  return q;
}

export async function runs({ query, signal }) {
  const filter = Object.fromEntries(filters.map((n) => [n, query.get(n) ?? ""]));
  const load = (cursor) => get(`/v1/runs?${parameters(filter, cursor)}`, signal);
  const list = new Rows(filters.some((n) => filter[n]));
  const more = h("button", { type: "button", class: "quiet" }, "Older runs");
  const place = h("div");
  more.addEventListener("click", asyncAction(more, place, async () => {
    const page = await load(next);
    list.put(page.runs);
    next = page.next_cursor;
    more.hidden = !next;
  }));
  const [first, names] = await Promise.all([load(), filter.module ? moduleNames(signal) : undefined]);
  list.put(first.runs);
  let next = first.next_cursor;
  more.hidden = !next;
  const note = h("span", { class: "live", "aria-hidden": "true" });
  updateList(() => load(), list, note, signal);
  return h("section", null,
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Runs"), note, h("a", { class: "button main", href: "#/start" }, "Start a run")),
    filterForm(filter), chips(filter, names), list.element, place, more);
}

const address = (filter) => {
  const q = new URLSearchParams(Object.entries(filter).filter(([, v]) => v));
  return `#/runs${q.size > 0 ? `?${q}` : ""}`;
};

function filterForm(filter) {
  const select = (list, name) => h("select", { name, onchange: () => go() }, list.map(([value, text]) => h("option", { value, selected: value === filter[name] }, text)));
  const input = (name, placeholder, maxlength) => h("input", { type: "search", name, value: filter[name], placeholder, maxlength, autocapitalize: "none", spellcheck: "false" });
  const controls = [input("title", "words of the title", "200"), select(statuses, "status"), input("agent", "any", "63"), select(troubles, "with"), select(times, "since")];
  const go = (e) => {
    e?.preventDefault();
    location.hash = address({ ...filter, ...Object.fromEntries(controls.map((c) => [c.name, c.value.trim()])) });
  };
  return h("form", { class: "filters", onsubmit: go, role: "search", "aria-label": "Filter runs" },
    ["Title", "Status", "Agent", "With", "Started"].map((label, i) => field(label, controls[i])), h("button", { type: "submit" }, "Filter"));
}

// chips shows the filters that have no control, with links that remove them.
function chips(filter, names) {
  const set = [["version", filter.version && `version ${filter.version}`], ["module", filter.module && `module ${names?.get(filter.module) ?? shortDigest(filter.module)}`]].filter(([, text]) => text);
  return set.length > 0 && h("p", null, set.map(([name, text]) => h("a", { class: "chip", href: address({ ...filter, [name]: "" }), "aria-label": `Remove the filter ${text}` }, text, icon("close"))));
}

// updateList updates the list while it is visible.
async function updateList(load, list, note, signal) {
  let wait = updateInterval;
  while (!signal.aborted) {
    if (wait === updateInterval) await pause(updateInterval, signal);
    if (signal.aborted) return;
    if (document.hidden && wait === updateInterval) continue;
    try {
      list.put((await load()).runs);
      if (wait !== updateInterval) announce("Live updates resumed.");
      fill(note).className = "live";
      wait = updateInterval;
    } catch (e) {
      if (signal.aborted) return;
      const why = retryReason(e);
      if (wait === updateInterval) announce(`${why}.`);
      note.className = "live off";
      wait = Math.min(60000, Math.max(wait * 2, (e.retry ?? 0) * 1000));
      await countdown(wait / 1000, signal, (s) => fill(note, `${why}. Retrying in ${s} s`));
    }
  }
}

// Rows are the rows of a table of runs. Unchanged rows are not redrawn and keep the focus.
class Rows {
  #rows = new Map();
  #body = h("tbody", { role: "rowgroup" });
  #empty;
  #table = h("table", { class: "list runs", role: "table" }, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ["Run", "Status", "Agent", "Time", "Steps", "Tokens", "Started"]
    .map((t) => h("th", { scope: "col", role: "columnheader", class: ["Time", "Steps", "Tokens"].includes(t) ? "number" : "" }, t)))), this.#body);

  constructor(filtered) {
    this.#empty = filtered ? emptyState("search", "No matching runs", "Other filters may find some.", h("a", { class: "button", href: "#/runs" }, "Show all runs"))
      : emptyState("runs", "No runs yet", "Start one here, or with:", h("a", { class: "button main", href: "#/start" }, "Start a run"), 'agent-runner runs start AGENT "…"');
    this.element = h("div", null, this.#table, this.#empty);
  }

  put(list) {
    for (const r of list) {
      const text = JSON.stringify(r);
      const known = this.#rows.get(r.id);
      if (known?.text === text) continue;
      const row = line(r);
      this.#rows.set(r.id, { text, row, at: `${new Date(r.created).toISOString()} ${r.id}` });
      if (known) known.row.replaceWith(row);
    }
    const sorted = [...this.#rows.values()].sort((a, b) => (a.at < b.at ? 1 : -1));
    sorted.forEach(({ row }, i) => {
      if (this.#body.children[i] !== row) this.#body.insertBefore(row, this.#body.children[i] ?? null);
    });
    this.#table.hidden = this.#rows.size === 0;
    this.#empty.hidden = this.#rows.size > 0;
  }
}

function line(r) {
  const cell = (kind, ...x) => h("td", { role: "cell", class: kind }, x);
  return h("tr", { role: "row" },
    cell("wide", h("a", { href: `#/runs/${r.id}` }, r.title || r.id)), cell("", statusOf(r), r.faults > 0 && [" ", badge(plural(r.faults, "fault"), "bad")], r.denials > 0 && [" ", badge(plural(r.denials, "denial"), "warn")]),
    cell("", r.agent, r.version ? h("span", { class: "soft" }, ` v${r.version}`) : null),
    cell("number nowrap", r.took_ms > 0 ? duration(r.took_ms * 1000) : ""), cell("number", short(r.step)), cell("number", short(r.usage.total_tokens)), cell("soft nowrap", relativeTime(r.created)));
}

export async function start({ query, signal }) {
  const list = await all("/v1/agents", "agents", signal);
  const asked = query.get("agent");
  const agent = h("select", { required: true }, list.map((a) => h("option", { value: a.name, selected: a.name === asked }, a.name)));
  const input = draft(h("textarea", { rows: "6", required: true, placeholder: "User message" }), "start");
  const place = h("div");
  const button = h("button", { type: "submit", class: "main" }, "Start");
  // Submitting the same form again starts no second run.
  const submission = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
  let firstBody;
  const go = asyncAction(button, place, async () => {
    const body = { agent: agent.value, input: input.value };
    const text = JSON.stringify(body);
    const name = text === (firstBody ??= text) ? submission : `${submission}-${Date.now()}`;
    const r = await call("POST", "/v1/runs", { body, headers: { "Idempotency-Key": name } });
    deleteDrafts("start");
    location.hash = `#/runs/${r.id}`;
  });
  input.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.currentTarget.form.requestSubmit();
  });
  if (list.length === 0) {
    return h("section", null, h("h1", { tabindex: "-1" }, "Start a run"), emptyState("agents", "No agents yet", "A run needs an agent. Create one with:", "agent-runner agents apply agent.yaml"));
  }
  return h("section", { class: "narrow" }, h("h1", { tabindex: "-1" }, "Start a run"),
    h("form", { class: "card stack", onsubmit: go, method: "post" }, field("Agent", agent), field("Input", input, "Ctrl+Enter starts the run."), place, h("div", null, button)));
}

