// Parts of pages: controls, tables, and texts of certain kinds.
import { h, fill, icon, relate } from "./dom.js";
import { toast } from "./toast.js";

const maxRows = 200; // rows of a table that are shown at once

// field is a labelled control.
let fields = 0;
export function field(label, control, hint) {
  control.id ||= `f${++fields}`;
  const note = hint && h("span", { class: "hint" }, hint);
  if (note) relate(control, "aria-describedby", note);
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

// emptyState shows that a list is empty, and the actions that fill it: strings are commands, and
// elements are buttons and links.
export function emptyState(name, title, text, ...actions) {
  return h("div", { class: "empty" }, icon(name), h("b", null, title), h("p", null, text),
    actions.map((a) => (typeof a === "string" ? h("pre", { tabindex: "0" }, a) : a)));
}

// json shows a value as indented JSON.
export function json(v) {
  return h("pre", { class: "json" }, typeof v === "string" ? v : JSON.stringify(v, null, 2));
}

// shortDigest is the beginning of a digest.
export const shortDigest = (text) => (text ?? "").replace("sha256:", "").slice(0, 12);

// digest shows the beginning of a digest, with a button that copies all of it.
export function digest(text) {
  return h("span", { class: "digest" }, h("code", { title: text }, shortDigest(text)), copyButton(text, "Copy the digest"));
}

// copyButton makes a button that copies a text.
export function copyButton(text, label) {
  return h("button", { type: "button", class: "copy", title: label, "aria-label": label, onclick: async () => {
    if (await copy(text)) toast("Copied.");
    else toast("The browser does not allow copying: select the text, and copy it by keyboard.");
  } }, icon("copy"));
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text); // only over TLS, or from this machine
    return true;
  } catch {
    return false;
  }
}

// warnings shows a list of warnings, or nothing.
export function warnings(list) {
  return list?.length > 0 && h("section", { class: "card warn", "aria-label": "Warnings" }, h("h2", null, "Warnings"), h("ul", { class: "plain" }, list.map((w) => h("li", null, w))));
}

// plural is a number with a noun: "1 warning", "2 warnings".
export const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
