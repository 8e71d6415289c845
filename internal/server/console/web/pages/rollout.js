// The page of a rollout: its steps, a comparison of the two versions, and the reason for its end.
import { h, fill, announce } from "../dom.js";
import { confirmButton, errorMessage, properties, relativeTime, table, plural } from "../parts.js";
import { count, duration, short } from "../format.js";
import { get, call, pause, isTemporary, retryReason } from "../api.js";
import { chart } from "../charts.js";
import { toast } from "../toast.js";
import { parts, rolloutStatus, sentence, share } from "../release.js";

const updateInterval = 2000; // milliseconds
const minBuckets = 12; // of a chart
const figures = ["faults", "errors", "denials", "latency", "cost"];
const labels = { faults: "Runs with a fault", errors: "Runs that end with an error", denials: "Runs with a denied tool call", latency: "Time of a run, p95", cost: "Tokens of a run" };
const ends = { promoted: ["good", "Promoted"], aborted: ["", "Stopped"], rolled_back: ["bad", "Rolled back"] };

export async function rollout({ id, signal }) {
  const path = `/v1/rollouts/${encodeURIComponent(id)}`;
  const [r, history] = await Promise.all([get(path, signal), get(`${path}/history`, signal)]);
  const page = new Page(path, signal);
  page.put(r, history);
  if (!r.ended) page.follow();
  return page.element;
}

class Page {
  #drawn = {};

  constructor(path, signal) {
    Object.assign(this, { path, signal, title: h("h1", { tabindex: "-1" }), crumbs: h("p", { class: "crumbs" }), live: h("span", { class: "live", "aria-hidden": "true" }), status: h("span", { class: "inline" }), buttons: h("div", { class: "buttons" }),
      banner: h("div"), steps: h("div"), versus: h("div", { class: "versus" }), figures: h("section"), charts: h("section", { "aria-label": "Over time" }), about: h("section"), place: h("div") });
    this.element = h("article", { class: "report" }, this.crumbs, h("div", { class: "head" }, this.title, this.status, this.live, h("span", { class: "grow" }), this.buttons), this.place, this.banner, this.steps, this.versus, this.figures, this.charts, this.about);
  }

  // follow updates the page until the rollout has ended.
  async follow() {
    while (!this.signal.aborted && !this.rollout.ended) {
      await pause(updateInterval, this.signal);
      if (this.signal.aborted) return;
      try {
        const [r, history] = await Promise.all([get(this.path, this.signal), get(`${this.path}/history`, this.signal)]);
        if (Date.parse(r.updated) >= Date.parse(this.rollout.updated)) this.put(r, history); // otherwise a button has shown a newer state
        this.live.className = "live";
        fill(this.live);
        if (r.ended) announce(`${ends[r.status]?.[1] ?? r.status}. ${sentence(r.reason)}`);
      } catch (e) {
        if (this.signal.aborted) return;
        if (!isTemporary(e)) return fill(this.place, errorMessage(e));
        this.live.className = "live off";
        fill(this.live, retryReason(e));
      }
    }
  }

  put(r, history = this.history) {
    Object.assign(this, { rollout: r, history });
    this.live.hidden = Boolean(r.ended);
    this.once("title", r.id, () => {
      fill(this.title, `${r.agent}@${r.alias}: version ${r.stable} → ${r.canary}`);
      fill(this.crumbs, h("a", { href: "#/rollouts" }, "Rollouts"), "/", h("a", { href: `#/rollouts?${new URLSearchParams({ agent: r.agent })}` }, r.agent), "/", h("span", null, `${r.stable} → ${r.canary}`));
      fill(this.about, this.plan());
    });
    this.once("status", [r.status, r.reason], () => {
      fill(this.status, rolloutStatus(r));
      fill(this.buttons, this.actions());
      fill(this.banner, this.why());
    });
    this.once("steps", [r.step, r.percent, r.status, r.figures.canary.runs, minutesSince(r.since)], () => {
      fill(this.steps, this.stages());
      fill(this.versus, this.split());
    });
    this.once("figures", [r.figures, r.status], () => fill(this.figures, this.comparison()));
    if (!this.charts.contains(document.activeElement)) this.once("charts", history.points, () => fill(this.charts, charts(history, r)));
  }

  once(name, what, draw) {
    const text = JSON.stringify(what);
    if (this.#drawn[name] === text) return;
    this.#drawn[name] = text;
    draw();
  }

  actions() {
    const r = this.rollout;
    const change = (what, said) => async () => {
      this.put(await call("POST", `${this.path}/${what}`, { body: {} }));
      toast(said);
    };
    if (r.ended) return h("a", { class: "button", href: `#/runs?${new URLSearchParams({ agent: r.agent, version: r.canary })}` }, `Runs of version ${r.canary}`);
    return [r.status === "paused" ? confirmButton("Resume", "Resume the steps?", change("resume", "Resumed.")) : confirmButton("Pause", "Pause the steps?", change("pause", "Paused.")),
      confirmButton("Roll back", `Give version ${r.stable} to all runs?`, change("abort", "Rolled back."), "bad"), confirmButton("Promote", `Give version ${r.canary} to all runs?`, change("promote", "Promoted."), "main")];
  }

  // why shows how a rollout ended, or that it is paused.
  why() {
    const r = this.rollout;
    if (r.status === "paused") return h("div", { class: "card warn banner" }, h("h2", null, "Paused"), h("p", null, `Version ${r.canary} keeps ${r.percent} % of the runs. The comparison goes on, and can still roll it back.`), h("p", { class: "soft small" }, sentence(r.reason)));
    const [kind, title] = ends[r.status] ?? [];
    if (!title) return null;
    const now = r.status === "promoted" ? `All runs of ${r.agent}@${r.alias} get version ${r.canary}.` : `All runs of ${r.agent}@${r.alias} get version ${r.stable} again.`;
    return h("div", { class: `card banner ${kind}` }, h("h2", null, `${title} after ${minutes(Math.round((Date.parse(r.ended) - Date.parse(r.created)) / 1000))}`), this.words(), h("p", null, now));
  }

  // words returns a text about the end of a rollout: the figures that led to a rollback, or the
  // reason that the server gives.
  words() {
    const r = this.rollout;
    const worse = r.status === "rolled_back" && rowsOf(r).find((x) => x.over && r.reason.toLowerCase().startsWith(x.begins));
    if (!worse) return h("p", null, sentence(r.reason.startsWith("by ") ? `${r.status === "promoted" ? "promoted" : "stopped"} ${r.reason}` : r.reason));
    return [h("p", null, h("b", null, `${worse.label}: ${worse.canary} with version ${r.canary}, ${worse.stable} with version ${r.stable}.`), ` The limit is ${worse.tolerated}.`),
      h("p", { class: "soft small" }, `Of ${plural(r.figures.canary.runs, "run")} with version ${r.canary} and ${count(r.figures.stable.runs)} with version ${r.stable}. The difference is too large for chance.`)];
  }

  stages() {
    const r = this.rollout;
    return h("ol", { class: "steps", "aria-label": "Steps" }, r.plan.steps.map((s, i) => {
      const now = i + 1 === r.step;
      const at = r.ended ? (now ? ends[r.status]?.[1].toLowerCase() : i + 1 < r.step ? "done" : "not reached") : i + 1 < r.step ? "done" : now ? progress(r, s) : minutes(s.seconds);
      return h("li", { class: i + 1 < r.step ? "done" : "", "aria-current": now && !r.ended ? "step" : null }, h("b", null, `${s.percent} %`), h("span", { class: "small" }, at));
    }));
  }

  split() {
    const r = this.rollout;
    const canary = r.status === "promoted" ? 100 : r.ended ? 0 : r.percent;
    return [h("p", null, h("span", { class: "arm" }, `Version ${r.stable}, stable: ${100 - canary} %`), h("span", { class: "arm canary" }, `Version ${r.canary}, canary: ${canary} %`)), parts([[100 - canary, "stable"], [canary, "canary"]])];
  }

  comparison() {
    const r = this.rollout;
    const few = Math.min(r.figures.stable.runs, r.figures.canary.runs) < r.plan.rollback.min_runs;
    return [h("div", { class: "head" }, h("h2", null, r.ended ? "Compared at the end" : "Compared now"), few && !r.ended && h("span", { class: "soft small" }, `Not judged before each version has ${plural(r.plan.rollback.min_runs, "run")}.`)),
      table("Comparison", ["Figure", `#Stable v${r.stable}`, `#Canary v${r.canary}`, "Difference", "Tolerated"], [
        h("tr", null, h("th", { scope: "row" }, "Runs compared"), h("td", { class: "number" }, count(r.figures.stable.runs)), h("td", { class: "number" }, count(r.figures.canary.runs)), h("td"), h("td")),
        ...rowsOf(r).map((x) => h("tr", { class: x.over ? "differs" : "" }, h("th", { scope: "row" }, x.label), h("td", { class: "number" }, x.stable), h("td", { class: `number ${x.over ? "bad" : ""}` }, x.canary),
          h("td", null, h("div", { class: "limit" }, parts([[x.part, x.over ? "bad" : "good"], [1 - x.part, "none"]]), h("span", { class: "small nowrap" }, x.difference))), h("td", { class: "soft nowrap" }, x.off ? "not compared" : x.tolerated)))])];
  }

  plan() {
    const r = this.rollout;
    return [h("h2", null, "Plan"), properties(["Chosen", r.plan.by === "thread" ? "by thread" : "by run"], ["Runs of the last", minutes(r.plan.rollback.window_seconds)], ["Started", relativeTime(r.created)], ["By", r.by])];
  }
}

// rowsOf returns the figures of both versions and their differences, as texts. over is true if the
// difference exceeds the tolerated one. part is the length of the bar, from 0 to 1; it is 0.5 for the
// tolerated difference.
function rowsOf(r) {
  const { stable: a, canary: b } = r.figures;
  const known = Math.min(a.runs, b.runs) > 0;
  return figures.map((figure) => {
    const off = r.plan.rollback.off?.includes(figure) ?? false;
    const tolerated = r.plan.rollback.increase[figure];
    const ratio = figure === "latency" || figure === "cost";
    const money = a.cost > 0 || b.cost > 0;
    const value = (x) => (figure === "latency" ? x.p95_ms : figure === "cost" ? (money ? x.cost ?? 0 : x.tokens) : x[figure]);
    const show = (x) => (x.runs === 0 ? "–" : figure === "latency" ? duration(value(x) * 1000) : figure === "cost" ? (money ? `${value(x).toPrecision(3)} ${r.currency}` : short(Math.round(value(x)))) : share(value(x)));
    const more = ratio ? (value(a) > 0 ? value(b) / value(a) - 1 : 0) : value(b) - value(a);
    const text = ratio ? `${more < 0 ? "−" : "+"}${Math.abs(100 * more).toFixed(0)} %` : `${more < 0 ? "−" : "+"}${points(Math.abs(more))}`;
    return { label: figure === "cost" && money ? "Cost of a run" : labels[figure], begins: { latency: "95th", cost: "mean" }[figure] ?? labels[figure].toLowerCase(), off, stable: show(a), canary: show(b), over: Math.min(a.runs, b.runs) >= r.plan.rollback.min_runs && !off && more > tolerated, part: known ? Math.min(1, Math.max(0, more / (2 * tolerated))) : 0,
      difference: !known ? "–" : more === 0 ? "none" : text, tolerated: ratio ? `${(100 * tolerated).toFixed(0)} % more` : `${points(tolerated)} more` };
  });
}

const points = (x) => `${Number((100 * x).toFixed(1))} points`;
const minutesSince = (t) => Math.floor((Date.now() - Date.parse(t)) / 60000);
const minutes = (seconds) => (seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(seconds % 3600 ? 1 : 0)} h`);

// progress returns a text with the progress of the current step.
function progress(r, s) {
  const spent = Math.max(0, (Date.now() - Date.parse(r.since)) / 1000);
  const left = r.plan.rollback.min_runs - r.figures.canary.runs;
  if (r.status === "paused") return "paused";
  if (spent < s.seconds) return `${minutes(Math.floor(spent))} of ${minutes(s.seconds)}`;
  return left > 0 ? `waiting for ${plural(left, "more run")}` : r.step === r.plan.steps.length && s.percent < 100 ? "waiting for you" : "next step soon";
}

// charts returns charts of the figures of both versions over time.
function charts(history, r) {
  const bucket = history.bucket_seconds * 1000;
  const points = history.points;
  if (points.length === 0) return [h("h2", null, "Over time"), h("p", { class: "empty" }, r.ended ? "No run finished during the rollout." : "Charts appear here once runs finish.")];
  const first = Date.parse(points[0].time);
  const times = Array.from({ length: Math.min(400, Math.max(minBuckets, Math.round((Date.parse(points.at(-1).time) - first) / bucket) + 1)) }, (_, i) => first + i * bucket);
  const series = (value, otherwise) => [["stable", `Version ${r.stable}`], ["canary", `Version ${r.canary}`]].map(([arm, name]) => {
    const values = times.map(() => otherwise);
    for (const p of points) {
      const i = Math.round((Date.parse(p.time) - first) / bucket);
      if (i in values && p[arm].runs > 0) values[i] = value(p[arm]);
    }
    return { name, values };
  });
  const when = (t) => new Date(t).toLocaleString("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(times.at(-1) - first > 86400000 ? { month: "short", day: "numeric" } : {}) });
  const make = (title, values, show, kind, empty) => chart({ title, times, series: values, show, kind, when, empty });
  return [h("h2", null, "Over time"), h("div", { class: "charts" }, make("Runs", series((x) => x.runs, 0), count, "bars", "No runs."), make("Runs with a fault", series((x) => x.faults, null), share, "lines", "No faults."),
    make("Runs with a denied tool call", series((x) => x.denials, null), share, "lines", "No denials."), make("Time of a run, p95", series((x) => x.p95_ms, null), (ms) => duration(Math.round(ms) * 1000), "lines", "No runs."), make("Tokens of a run", series((x) => x.tokens, null), (n) => short(Math.round(n)), "lines", "No tokens."),
    make("Runs that end with an error", series((x) => x.errors, null), share, "lines", "No errors."))];
}
