// The timeline: nested spans with their durations.
import { h } from "./dom.js";
import { duration, short } from "./format.js";

const maxRows = 400; // rows that are drawn

// timeline draws the timelines of a trace, one for each start or resumption of the run. The
// part in progress has no timeline yet and is drawn from events. changed has the places where
// the changes of hooks are shown, by [hookKey].
export function timeline(trace, events, inProgress, changed) {
  const parts = (trace?.timelines ?? []).filter((t) => Array.isArray(t.spans) && t.spans.length > 0);
  const traced = parts.length > 0;
  if (inProgress || !traced) {
    const spans = fromEvents(inProgress && traced ? since(events) : events);
    if (spans.length > 0) parts.push({ spans, rough: true });
  }
  if (parts.length === 0) return h("p", { class: "empty" }, "Nothing has happened yet.");
  return [parts.map((t, i) => part(t, parts.length > 1 ? `${i + 1} of ${parts.length}` : "", changed)),
    traced && h("p", { class: "soft small" }, legend())];
}

function part(t, title, changed) {
  const rows = tree(t.spans);
  const open = t.spans.some((s) => s.took_us < 0);
  const known = Math.max(1, ...t.spans.map((s) => s.start_us + Math.max(s.took_us, 0)));
  const end = open ? known * 1.25 : known; // unfinished spans reach to the end
  const left = (t.dropped ?? 0) + Math.max(0, rows.length - maxRows);
  return [
    h("p", { class: "soft small over" }, title && `Part ${title} · `, !open && duration(known), t.rough && `${open ? "" : " · "}from events: hooks appear here once the run has ended or paused`, left > 0 && ` · ${left} more not shown`),
    h("div", { class: "timeline", role: "region", "aria-label": title ? `Timeline, part ${title}` : "Spans", tabindex: "0" }, h("ol", null, withSteps(rows.slice(0, maxRows), t.rough).map(([s, depth]) => (s.kind === "steps" ? h("li", { class: "step" }, s.label) : row(s, depth, end, changed))))),
  ];
}

// since returns the events after the last pause.
function since(events) {
  return events.slice(events.findLastIndex((e) => e.type === "run_paused") + 1);
}

const legend = () => [["model", "model"], ["tool", "tool"], ["hook", "module"]].map(([kind, text]) => [h("span", { class: `key ${kind}`, "aria-hidden": "true" }), `${text} `]);

function tree(spans) {
  const inside = new Map();
  const known = new Set(spans.map((s) => s.id));
  for (const s of spans) {
    const parent = known.has(s.parent) ? s.parent : 0;
    if (!inside.has(parent)) inside.set(parent, []);
    inside.get(parent).push(s);
  }
  const out = [];
  const seen = new Set();
  const walk = (id, depth) => {
    for (const s of inside.get(id) ?? []) {
      if (seen.has(s.id)) continue;
      seen.add(s.id);
      out.push([s, depth]);
      walk(s.id, depth + 1);
    }
  };
  walk(0, 0);
  return out;
}

function name(s) {
  switch (s.kind) {
    case "hook": return [h("b", null, s.entry), " ", h("span", { class: "soft" }, s.hook)];
    case "model": return [h("b", null, "model"), " ", h("span", { class: "soft" }, s.model)];
    case "tool": return [h("b", null, s.tool || "tool")];
    default: return [h("b", null, s.label ?? s.agent ?? s.kind)];
  }
}

// withSteps puts a line before the first span of each step of the run itself.
function withSteps(rows, rough) {
  let now;
  return rows.flatMap(([s, depth]) => {
    const begins = !rough && depth === 1 && s.step > 0 && s.step !== now;
    if (begins) now = s.step;
    return begins ? [[{ kind: "steps", label: `Step ${s.step}` }, 0], [s, depth]] : [[s, depth]];
  });
}

// hookKey identifies a call of a hook.
export const hookKey = (step, entry, hook, call) => [step ?? 0, entry, hook, call ?? ""].join("\n");

function row(s, depth, end, changed) {
  const bar = h("span", { class: `bar ${s.kind} ${s.error ? "bad" : ""} ${s.took_us < 0 ? "open" : ""}` });
  const from = (100 * s.start_us) / end;
  const width = s.took_us < 0 ? 100 - from : (100 * s.took_us) / end;
  bar.style.left = `${Math.min(from, 99.5)}%`;
  bar.style.width = `${Math.max(0.5, Math.min(width, 100 - from))}%`;
  const place = s.kind === "hook" && changed?.get(hookKey(s.step, s.entry, s.hook, s.call_id));
  const label = h("span", { class: "what" }, name(s), place && h("button", { type: "button", title: "Show the changes", onclick: () => find(place) }, "changed"), s.error && h("span", { class: "bad" }, ` ${s.error}`));
  label.style.paddingInlineStart = `${Math.min(depth, 8) * 0.8}rem`;
  const own = s.kind === "hook" && s.own_us > 0 && s.took_us - s.own_us > 50 ? ` (${duration(s.own_us)} own time)` : "";
  return h("li", { title: `${duration(s.took_us)}${own}` }, label, h("span", { class: "track", "aria-hidden": "true" }, bar),
    h("span", { class: "number" }, duration(s.took_us)), h("span", { class: "number soft fuel" }, s.fuel ? `${short(s.fuel)} fuel` : s.tokens ? `${short(s.tokens)} tok` : ""));
}

// find scrolls to the changes of a hook.
function find(place) {
  document.querySelector(".deed.found")?.classList.remove("found");
  place.classList.add("found");
  place.scrollIntoView({ block: "center" });
  place.focus({ preventScroll: true });
}

// fromEvents derives spans from events.
export function fromEvents(events) {
  if (events.length === 0) return [];
  const began = events[0].time_ms;
  const out = [];
  const at = (e) => (e.time_ms - began) * 1000;
  const open = new Map();
  const begin = (key, parent, e, span) => {
    const s = { id: out.length + 1, parent: open.get(parent)?.id ?? 0, start_us: at(e), took_us: -1, ...span };
    out.push(s);
    open.set(key, s);
  };
  const end = (key, e, more) => {
    const s = open.get(key);
    if (!s) return;
    Object.assign(s, { took_us: at(e) - s.start_us }, more);
    open.delete(key);
  };
  const closeAll = (e) => [...open.keys()].forEach((k) => end(k, e));
  for (const e of events) {
    switch (e.type) {
      case "step_started":
        begin("step", "", e, { kind: "step", label: `step ${e.step ?? ""}` });
        begin("model", "step", e, { kind: "model" });
        break;
      case "message":
        if (e.message?.role === "assistant") end("model", e);
        break;
      case "tool_call":
        end("model", e);
        begin(`tool ${e.call?.id}`, "step", e, { kind: "tool", tool: e.call?.name });
        break;
      case "tool_result":
        end(`tool ${e.call?.id}`, e, e.result?.is_error ? { error: "error" } : {});
        break;
      case "step_finished":
      case "run_paused":
      case "run_finished":
        closeAll(e);
    }
  }
  return out;
}
