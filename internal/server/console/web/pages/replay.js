// The report of a replay: the number of runs that change, the hooks that differ first, and the
// details of one run.
import { h, fill, icon, announce, partialList } from "../dom.js";
import { badge, confirmButton, emptyState, errorMessage, plural, properties, relativeTime, table } from "../parts.js";
import { count, short } from "../format.js";
import { get, all, call, pause, isTemporary } from "../api.js";
import { moduleNames } from "../names.js";
import { textDiff } from "../history.js";
import { toast } from "../toast.js";
import { candidateText, endsDifferently, firstHook, kinds, outcomes, parts, replayStatus, sentence } from "../release.js";

const updateInterval = 1000; // milliseconds
const pageRows = 200; // results of a request
const maxLive = 200; // results that are read again while the replay is in progress
const maxRuns = 100; // runs of the list that are shown at once
const maxTitles = 500;
const rank = ["request", "message", "call", "decision", "fault", "tool_sent", "result", "event", "end"]; // of changes in a step

export async function replay({ id, query, signal }) {
  const path = `/v1/replays/${encodeURIComponent(id)}`;
  const [r, results, names] = await Promise.all([get(path, signal), all(`${path}/runs`, "runs", signal, pageRows), moduleNames(signal)]);
  const titles = await get(`/v1/runs?${new URLSearchParams({ agent: r.agent, limit: maxTitles })}`, signal).then(({ runs }) => new Map(runs.map((x) => [x.id, x.title])), () => new Map());
  const report = new Report(path, names, titles, query, signal);
  report.put(r, results);
  if (!r.ended) report.follow();
  return report.element;
}

class Report {
  #head = h("div", { class: "head" });
  #progress = h("div");
  #verdict = h("div");
  #list = h("div");
  #detail = h("section", { class: "detail", "aria-label": "Before and after", tabindex: "-1" });
  #drawn = {};

  constructor(path, names, titles, query, signal) {
    Object.assign(this, { path, names, titles, signal });
    this.outcome = Object.hasOwn(outcomes, query.get("outcome") ?? "") ? query.get("outcome") : "";
    this.chosen = Number(query.get("run")) || 0;
    this.title = h("h1", { tabindex: "-1" });
    this.status = h("span", { class: "inline" });
    this.buttons = h("div", { class: "buttons" });
    this.crumb = h("span");
    this.about = h("p", { class: "lead" });
    fill(this.#head, this.title, this.status, h("span", { class: "grow" }), this.buttons);
    this.element = h("article", { class: "report" }, h("p", { class: "crumbs" }, h("a", { href: "#/replays" }, "Replay before rollout"), "/", this.crumb), this.#head, this.about, this.#progress, this.#verdict, h("div", { class: "master" }, this.#list, this.#detail));
  }

  // follow updates the report until the replay has ended.
  async follow() {
    while (!this.signal.aborted && !this.replay.ended) {
      await pause(updateInterval, this.signal);
      try {
        const r = await get(this.path, this.signal);
        const read = r.done !== this.results.length && (r.ended || r.done <= maxLive);
        this.put(r, read ? await all(`${this.path}/runs`, "runs", this.signal, pageRows) : this.results);
        if (r.ended) announce(this.#verdict.querySelector("h2")?.textContent ?? "The replay has ended.");
      } catch (e) {
        if (this.signal.aborted) return;
        if (!isTemporary(e)) return fill(this.#progress, errorMessage(e));
      }
    }
  }

  put(r, results) {
    Object.assign(this, { replay: r, results });
    this.once("title", [r.agent], () => {
      fill(this.title, `${r.agent}, ${candidateText(r, this.names)}`);
      fill(this.crumb, this.title.textContent);
      fill(this.about, `The last ${plural(r.total, "run")}, started `, relativeTime(r.created), ` by ${r.by}`);
    });
    this.once("status", [r.status], () => {
      fill(this.status, replayStatus(r));
      fill(this.buttons, this.actions());
    });
    this.once("progress", [r.done, r.status], () => fill(this.#progress, !r.ended && [h("progress", { max: r.total, value: r.done, "aria-label": "Replayed runs" }), h("p", { class: "soft small" }, r.status === "queued" ? "Waiting for a server that is free." : `${count(r.done)} of ${plural(r.total, "run")} replayed`)]));
    this.once("report", [r.done, r.status, results.length], () => {
      fill(this.#verdict, this.verdict());
      this.draw();
    });
  }

  // once draws a part of the page if its data, what, has changed.
  once(name, what, draw) {
    const text = JSON.stringify(what);
    if (this.#drawn[name] === text) return;
    this.#drawn[name] = text;
    draw();
  }

  actions() {
    const r = this.replay;
    if (!r.ended) {
      return confirmButton("Cancel", "Cancel the replay?", async () => this.put(await call("POST", `${this.path}/cancel`), this.results));
    }
    const c = r.candidate;
    const q = new URLSearchParams({ agent: r.agent, ...(c.version ? { version: c.version } : { module: c.digest }) });
    return [confirmButton("Delete", "Delete the report?", async () => {
      await call("DELETE", this.path);
      toast("Deleted.");
      location.hash = "#/replays";
    }), h("a", { class: "button", href: `#/try?${q}` }, "Replay again"),
    r.status === "finished" && r.done > r.skipped && h("a", { class: "button main", href: `#/canary?${q}${c.version ? "" : `&${new URLSearchParams({ entry: c.entry })}`}` }, icon("rollouts"), "Start a canary")];
  }

  // verdict shows a sentence about the outcome of the replay, and then the figures.
  verdict() {
    const r = this.replay;
    const tried = r.done - r.skipped;
    if (r.done === 0) return r.ended ? emptyState("replay", "Canceled before the first run", "Nothing was compared.") : null;
    if (tried === 0) return [emptyState("replay", r.ended ? "No run could be replayed" : "No run could be replayed so far", "These are the reasons, with the number of runs."), reasons(this.results)];
    const end = this.results.filter(endsDifferently).length;
    const unknown = this.results.filter((x) => x.outcome === "diverged" && !endsDifferently(x)).length;
    const none = r.same === tried;
    const text = none ? `${tried === 1 ? "The run" : `All ${count(tried)} runs`} would stay the same` : end > 0 || unknown === 0 ? `${count(end)} of ${plural(tried, "run")} would end differently` : `${count(unknown)} of ${plural(tried, "run")} would take another path`;
    const more = [unknown > 0 && end > 0 && `${count(unknown)} more would ask the model something else, so their end is unknown.`, unknown > 0 && end === 0 && "The model would be asked something else, so their end is unknown.",
      r.failed > 0 && `${count(r.failed)} would fail.`, r.status === "canceled" && `The replay was canceled after ${count(r.done)} of ${count(r.total)} runs.`];
    return [h("div", { class: `verdict ${r.failed > 0 ? "bad" : none ? "good" : "warn"}` }, h("h2", null, text), h("p", null, more.filter(Boolean).join(" ")), parts(Object.keys(outcomes).map((o) => [r[o], outcomes[o][2] || "soft"]))),
      this.tiles(), h("div", { class: "pair" }, h("section", null, h("h2", null, "Where runs begin to differ"), first(this.results)), h("section", null, h("h2", null, "Before and after, in all runs"), figures(this.results)))];
  }

  // tiles returns a tile for each outcome, with the number of runs. A tile filters the list.
  tiles() {
    const tile = (o, n, [text, meaning, kind]) => {
      const b = h("button", { type: "button", class: `outcome ${n > 0 ? `is-${kind}` : ""}`, title: meaning, "aria-pressed": String(this.outcome === o), onclick: () => {
        this.outcome = this.outcome === o ? "" : o;
        for (const other of b.parentElement.children) other.ariaPressed = String(other === b && this.outcome === o);
        this.chosen = 0;
        this.draw();
      } }, h("b", null, count(n)), h("span", null, text));
      return b;
    };
    return h("div", { class: "outcomes", role: "group", "aria-label": "Filter runs by outcome" }, Object.entries(outcomes).map(([o, about]) => tile(o, this.replay[o], about)));
  }

  // draw shows the list and one run of it.
  draw() {
    const r = this.replay;
    const list = this.results.filter((x) => (this.outcome ? x.outcome === this.outcome : x.outcome !== "same"));
    const shown = list.length > 0 || this.outcome ? list : this.results;
    const now = shown.find((x) => x.number === this.chosen) ?? shown[0];
    this.address();
    this.element.querySelector(".master").hidden = r.done === 0;
    fill(this.#list, h("h2", null, this.outcome ? outcomes[this.outcome][0] : list.length > 0 ? "Runs that change" : "Runs", " ", h("span", { class: "soft" }, count(shown.length))),
      shown.length === 0 ? h("p", { class: "empty" }, r.ended ? "No runs." : "No runs yet.") : h("ul", { class: "plain runlist" }, partialList(shown, maxRuns, (x) => this.row(x, x === now))));
    this.show(now);
  }

  row(x, chosen) {
    const at = firstHook(x);
    const b = h("button", { type: "button", "aria-current": chosen ? "true" : null, onclick: () => {
      this.chosen = x.number;
      this.#list.querySelector("[aria-current]")?.removeAttribute("aria-current");
      b.ariaCurrent = "true";
      this.address();
      this.show(x);
      if (matchMedia("(max-width: 60rem)").matches) this.#detail.scrollIntoView({ block: "start" });
    } }, h("span", { class: "title" }, this.titles.get(x.run) || x.run), h("span", { class: "inline" }, outcomeBadge(x.outcome), endsDifferently(x) && badge("ends differently", "warn"),
      h("span", { class: "soft small" }, x.outcome === "skipped" ? x.reason : at && `${at.entry} ${at.hook}`)));
    return h("li", null, b);
  }

  // address stores the filter and the run in the page's address, so that a reload restores them.
  address() {
    const q = new URLSearchParams({ ...(this.outcome ? { outcome: this.outcome } : {}), ...(this.chosen ? { run: this.chosen } : {}) });
    history.replaceState(null, "", `#/replays/${this.replay.id}${q.size > 0 ? `?${q}` : ""}`);
  }

  // show shows the differences between a run and its replay with the candidate.
  show(x) {
    if (!x) return fill(this.#detail);
    const pair = (a, b, text = count) => (a === b ? text(a) : [text(a), " → ", h("b", null, text(b))]);
    const changes = paired(x.changes ?? []);
    fill(this.#detail, h("div", { class: "head" }, h("h2", { class: "grow" }, "Before and after"), h("a", { href: `#/runs/${x.run}` }, "Open the run")),
      h("p", { class: "title" }, this.titles.get(x.run) || x.run),
      h("p", { class: "soft" }, outcomeBadge(x.outcome), " ", outcomes[x.outcome]?.[1]), x.reason && h("p", { class: "reason" }, sentence(x.reason)),
      x.outcome !== "skipped" && properties(["Steps", pair(x.before.steps, x.after.steps)], ["Faults", pair(x.before.faults, x.after.faults)], ["Denied tool calls", pair(x.before.denials, x.after.denials)], ["Fuel", pair(x.before.fuel, x.after.fuel, short)], ["Version of the run", x.version || undefined]),
      changes.length > 0 && h("ul", { class: "plain changes" }, changes.map((c) => h("li", null, textDiff(`${c.step > 0 ? `Step ${c.step}: ` : ""}${kinds[c.kind] ?? c.kind}`, c.before ?? "", c.after ?? "")))),
      x.omitted > 0 && h("p", { class: "soft small" }, `${plural(x.omitted, "more change")} between these and the end.`),
      changes.length === 0 && ["different", "diverged", "failed"].includes(x.outcome) && h("p", { class: "soft" }, "No details were stored."),
      x.hooks?.length > 0 && h("details", { open: changes.length === 0 }, h("summary", null, "Hooks that differ"), hooks(x.hooks)));
  }
}

const outcomeBadge = (o) => badge(outcomes[o]?.[0] ?? o, outcomes[o]?.[2] ?? "");

// reasons lists the reasons for which runs were not replayed, with the number of runs.
function reasons(results) {
  const by = Map.groupBy(results.filter((x) => x.outcome === "skipped"), (x) => x.reason.split("\n")[0]);
  return table("Reasons", ["Reason", "#Runs"], [...by].sort((a, b) => b[1].length - a[1].length).map(([why, list]) => h("tr", null, h("td", { class: "wide" }, sentence(why)), h("td", { class: "number" }, count(list.length)))), "None.");
}

// first lists the hooks that are the first to differ in a run, with the number of these runs.
function first(results) {
  const changed = results.filter((x) => ["different", "diverged", "failed"].includes(x.outcome));
  const by = [...Map.groupBy(changed, (x) => {
    const at = firstHook(x);
    return at ? `${at.entry}\n${at.hook}\n${at.step}` : "";
  })].sort((a, b) => b[1].length - a[1].length).slice(0, 8);
  return table("Where runs begin to differ", ["Hook", "Step", "#Runs", "Share"], by.map(([key, list]) => {
    const [entry, hook, step] = key.split("\n");
    return h("tr", null, h("td", null, key ? [h("b", null, entry), " ", h("span", { class: "soft" }, hook)] : "No hook: the agent differs"), h("td", null, step > 0 ? step : key ? "before the first" : "–"), h("td", { class: "number" }, count(list.length)),
      h("td", { class: "wide" }, parts([[list.length, "warn"], [changed.length - list.length, "soft"]])));
  }), "No run changes.");
}

// figures compares the faults, denials, steps and fuel of all runs, and shows in how many runs faults
// and denials are new or no longer occur.
function figures(results) {
  const tried = results.filter((x) => x.outcome !== "skipped");
  const row = (name, value, show = count) => {
    const sum = (side) => tried.reduce((n, x) => n + x[side][value], 0);
    const more = tried.filter((x) => x.after[value] > x.before[value]).length;
    const less = tried.filter((x) => x.after[value] < x.before[value]).length;
    const words = value === "fuel" ? change(sum("before"), sum("after")) : [more > 0 && `new in ${plural(more, "run")}`, less > 0 && `gone in ${plural(less, "run")}`].filter(Boolean).join(", ") || "no change";
    const bad = more > 0 && ["faults", "denials"].includes(value);
    return h("tr", null, h("th", { scope: "row" }, name), h("td", { class: "number" }, show(sum("before"))), h("td", { class: "number" }, show(sum("after"))), h("td", { class: bad ? "bad" : less > 0 ? "" : "soft" }, words));
  };
  return table("Before and after, in all runs", ["Figure", "#Before", "#After", "Difference"], [row("Faults", "faults"), row("Denied tool calls", "denials"), row("Steps", "steps"), row("Fuel", "fuel", short)]);
}

const change = (a, b) => (a === 0 || a === b ? "no change" : `${b > a ? "+" : "−"}${Math.abs((100 * (b - a)) / a).toFixed(0)} %`);

// paired orders changes by step and, within a step, by their time. It joins a removal and an addition
// of the same kind to one change.
function paired(changes) {
  const out = [];
  for (const c of [...changes].sort((a, b) => a.step - b.step || rank.indexOf(a.kind) - rank.indexOf(b.kind))) {
    const other = out.find((x) => x.kind === c.kind && x.step === c.step && (c.before ? !x.before : !x.after) && !(c.before && c.after));
    if (other) Object.assign(other, c.before ? { before: c.before } : { after: c.after });
    else out.push({ ...c });
  }
  return out;
}

function hooks(list) {
  const pair = (a, b, text = count) => (a === b ? text(a) : `${text(a)} → ${text(b)}`);
  const decisions = (x) => Object.entries(x.decisions ?? {}).map(([d, n]) => (n > 1 ? `${d} ${n}` : d)).join(", ");
  return table("Hooks that differ", ["Hook", "#Step", "#Calls", "Decisions", "#Faults", "#Fuel"], list.map((x) => h("tr", null, h("td", null, h("b", null, x.entry), " ", h("span", { class: "soft" }, x.hook)), h("td", { class: "number" }, x.step),
    h("td", { class: "number nowrap" }, pair(x.before.calls, x.after.calls)), h("td", { class: "nowrap" }, decisions(x.before) === decisions(x.after) ? decisions(x.after) : `${decisions(x.before) || "none"} → ${decisions(x.after) || "none"}`),
    h("td", { class: "number nowrap" }, pair(x.before.faults ?? 0, x.after.faults ?? 0)), h("td", { class: "number nowrap" }, pair(x.before.fuel, x.after.fuel, short)))));
}
