// All elements are made here. Data from modules, models and tenants becomes text nodes and
// harmless attributes. Long texts are shown in part.
import { cut, begin } from "./cut.js";

const maxChars = 20000; // characters of a text that are shown at once
const lines = 500;
const step = 100000; // characters that a button shows in addition
const maxRows = 200; // rows of a table that are shown at once

const plain = new Set(["class", "id", "for", "name", "type", "value", "placeholder", "autocomplete", "rows", "cols", "role", "tabindex", "scope", "title",
  "datetime", "min", "max", "maxlength", "required", "disabled", "open", "selected", "checked", "hidden", "spellcheck", "autocapitalize", "pattern", "colspan", "low", "high", "method"]);

// h makes an element: h("p", {class: "x", onclick: f}, "text", child, [more]).
export function h(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      if (typeof value !== "function") throw new TypeError(`${name} is not a function`);
      e.addEventListener(name.slice(2), value);
    } else if (name === "href") {
      // Only pages of the console.
      if (!String(value).startsWith("#")) throw new TypeError("a link leads elsewhere");
      e.setAttribute(name, value);
    } else if (plain.has(name) || name.startsWith("aria-") || name.startsWith("data-")) {
      e.setAttribute(name, value === true ? "" : String(value));
    } else {
      throw new TypeError(`attribute ${name} is not one that is used here`);
    }
  }
  put(e, children);
  return e;
}

function put(e, children) {
  for (const c of children.flat(Infinity)) {
    if (c === undefined || c === null || c === false || c === "") continue;
    if (c instanceof Node) e.append(c);
    else if (typeof c === "string" && c.length > lines) put(e, [long(c, maxChars, lines)]);
    else e.append(document.createTextNode(String(c)));
  }
}

// long shows a text, with a button in the middle that shows more of a long one.
export function long(text, maxLength = maxChars, maxLines = lines) {
  const [head, middle, tail] = cut(text, maxLength, maxLines);
  if (middle === "") return document.createTextNode(text);
  let rest = middle;
  const b = h("button", { type: "button", class: "more", onclick: () => {
    const now = begin(rest, step, step / 20);
    rest = rest.slice(now.length);
    b.before(document.createTextNode(now));
    label();
  } });
  const label = () => {
    b.textContent = `${count(rest.length)} characters hidden: show ${begin(rest, step, step / 20) === rest ? "all" : "more"}`;
    if (rest !== "") return;
    span.focus({ preventScroll: true });
    b.remove();
  };
  const span = h("span", { tabindex: "-1" }, document.createTextNode(head), b, document.createTextNode(tail));
  label();
  return span;
}

// partialList makes the first and the last of many elements, and a button between them that makes more.
// expanded stores how many are shown, for when the list is drawn again.
export function partialList(list, limit, make, expanded = {}, tag = "li") {
  expanded.shown ??= limit;
  if (list.length <= expanded.shown) return list.map(make);
  const first = Math.min(5, Math.floor(limit / 4));
  let from = list.length - (expanded.shown - first); // elements before first and from here on are made
  const b = h("button", { type: "button", class: "more", onclick: () => {
    const next = Math.max(first, from - limit);
    expanded.shown += from - next;
    const made = list.slice(next, from).map((x, i) => make(x, next + i));
    gap.after(...made);
    made[0].tabIndex = -1;
    made[0].focus({ preventScroll: true });
    from = next;
    label();
  } });
  const gap = h(tag, { class: "between" }, b);
  const label = () => {
    const left = from - first;
    if (left === 0) return gap.remove();
    b.textContent = `${count(left)} hidden: show ${left > limit ? `${limit} more` : "all"}`;
  };
  label();
  return [list.slice(0, first).map(make), gap, list.slice(from).map((x, i) => make(x, from + i))];
}

const jobs = [];

// runInSlices does long work in pieces, so that the page stays responsive.
export function runInSlices(job) {
  if (jobs.push(job) === 1) setTimeout(turn);
}

function turn() {
  const end = performance.now() + 40;
  while (jobs.length > 0 && performance.now() < end) jobs.shift()();
  if (jobs.length > 0) setTimeout(turn);
}

// fill replaces the content of an element.
export function fill(e, ...children) {
  e.replaceChildren();
  put(e, children);
  return e;
}

// announce announces a text to screen readers.
export function announce(text) {
  document.getElementById("said").textContent = text;
}

// field is a labelled control.
let fields = 0;
export function field(label, control, hint) {
  control.id ||= `f${++fields}`;
  const note = hint && h("span", { class: "hint", id: `${control.id}-hint` }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

// asyncAction returns a click handler that runs one action at a time and shows its error in a
// given place.
export function asyncAction(button, place, work) {
  return async (event) => {
    event?.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    fill(place);
    try {
      await work();
    } catch (e) {
      if (e.name !== "AbortError") fill(place, errorMessage(e), e.status === 429 && h("p", { class: "soft small" }, `Try again in ${e.retry || 1} s.`));
    } finally {
      button.disabled = false;
    }
  };
}

// confirmButton makes a button that asks for confirmation.
export function confirmButton(label, question, work, kind = "quiet") {
  const place = h("span", { class: "inline" });
  const b = h("button", { type: "button", class: kind }, label);
  const reset = () => {
    delete b.dataset.asked;
    b.textContent = label;
  };
  const go = asyncAction(b, place, work);
  b.addEventListener("blur", reset);
  b.addEventListener("click", (e) => {
    if (b.dataset.asked === undefined) {
      b.dataset.asked = "";
      b.textContent = question;
      return;
    }
    reset();
    go(e);
  });
  return h("span", { class: "inline" }, b, place);
}

// errorMessage shows an error.
export function errorMessage(e) {
  return h("p", { class: "wrong", role: "alert" }, e?.message ?? String(e));
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

const statuses = { running: "info", queued: "info", paused: "warn", finished: "good", failed: "bad", quarantined: "bad" };

// statusOf shows a run's status, by color and text.
export function statusOf(run) {
  let text = run.status;
  let kind = statuses[run.status] ?? "";
  if (run.status === "paused") text = "needs an answer";
  if (run.status === "finished" && run.finish_reason && run.finish_reason !== "stop") {
    text = run.finish_reason;
    kind = run.finish_reason === "error" ? "bad" : "warn";
  }
  return badge(text, `status ${kind}`);
}

const integer = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const count = (n) => integer.format(n ?? 0);
export const short = (n) => ((n ?? 0) < 10000 ? integer.format(n ?? 0) : compact.format(n));

export function bytes(n) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (n < 1024) return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
  return `${n.toFixed(1)} GiB`;
}

// duration shows a duration given in microseconds.
export function duration(us) {
  if (us < 0) return "…";
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms`;
  if (us < 6e7) return `${(us / 1e6).toFixed(1)} s`;
  return `${Math.floor(us / 6e7)} min ${Math.round((us % 6e7) / 1e6)} s`;
}

// relativeTime shows a time in relation to now.
export function relativeTime(text) {
  const t = new Date(text);
  if (Number.isNaN(t.getTime())) return "";
  const ago = (Date.now() - t) / 1000;
  let shown = t.toLocaleDateString("en", { year: "numeric", month: "short", day: "numeric" });
  if (ago < 60) shown = "just now";
  else if (ago < 3600) shown = `${Math.floor(ago / 60)} min ago`;
  else if (ago < 86400) shown = `${Math.floor(ago / 3600)} h ago`;
  return h("time", { datetime: t.toISOString(), title: t.toLocaleString("en") }, shown);
}

// digest shows the beginning of a digest, with all of it as its title.
export function digest(text) {
  return h("code", { title: text }, (text ?? "").replace("sha256:", "").slice(0, 12));
}

// properties shows pairs of names and values, except pairs without a value.
export function properties(...pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, v]) => v !== undefined && v !== null && v !== "" && v !== false).map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))));
}

export function table(label, heads, rows, empty) {
  if (rows.length === 0) return Array.isArray(empty) || empty instanceof Node ? empty : h("p", { class: "empty" }, empty);
  const body = h("tbody", null, rows.slice(0, maxRows));
  const more = rows.length > maxRows && h("button", { type: "button", class: "more", onclick: () => {
    body.append(...rows.slice(body.children.length, body.children.length + maxRows));
    more.hidden = body.children.length === rows.length;
  } }, "Show more");
  return [h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    h("table", null, h("thead", null, h("tr", null, heads.map((c) => h("th", { scope: "col", class: c.startsWith("#") ? "number" : "" }, c.replace("#", ""))))), body)), more];
}

// emptyState says that a list is empty, and shows commands that add to it.
export function emptyState(text, ...commands) {
  return h("div", { class: "empty" }, h("p", null, text), h("pre", { tabindex: "0" }, commands.join("\n")));
}

// json shows a value as indented JSON.
export function json(v) {
  return h("pre", { class: "json" }, typeof v === "string" ? v : JSON.stringify(v, null, 2));
}

// textOf returns the text of a message's content.
export function textOf(content) {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content.map((p) => p?.text ?? `[${p?.type ?? "part"}]`).join("\n");
}

// indentJSON indents JSON, or returns other text as it is.
export function indentJSON(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text ?? "";
  }
}
