// All elements are made here. Data from modules, models and tenants becomes text nodes and
// harmless attributes. Long texts are shown in part.
import { cut, begin } from "./cut.js";
import { count } from "./format.js";
import { paths } from "./icons.js";

const maxChars = 20000; // characters of a text that are shown at once
const lines = 500;
const step = 100000; // characters that a button shows in addition

const plain = new Set(["class", "id", "for", "name", "type", "value", "placeholder", "autocomplete", "rows", "cols", "role", "tabindex", "scope", "title",
  "datetime", "min", "max", "maxlength", "required", "disabled", "open", "selected", "checked", "hidden", "spellcheck", "autocapitalize", "pattern", "colspan", "rowspan", "low", "high", "method", "accept", "multiple", "list", "label", "inputmode", "minlength", "step", "readonly"]);
const drawn = new Set(["class", "role", "tabindex", "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "width", "height", "viewBox", "points", "text-anchor", "preserveAspectRatio"]);
const shapes = new Set(["svg", "g", "path", "line", "rect", "circle", "polyline", "text", "title"]);

// h makes an element: h("p", {class: "x", onclick: f}, "text", child, [more]).
export function h(tag, attributes, ...children) {
  return make(document.createElement(tag), plain, attributes, children);
}

// s makes an element of a drawing.
export function s(tag, attributes, ...children) {
  if (!shapes.has(tag)) throw new TypeError(`element ${tag} is not one that is used here`);
  return make(document.createElementNS("http://www.w3.org/2000/svg", tag), drawn, attributes, children);
}

// icon draws one of the icons of icons.js. Screen readers do not read it, so a text must express the
// same.
export function icon(name) {
  return s("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: paths[name] ?? paths.dot }));
}

function make(e, allowed, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      if (typeof value !== "function") throw new TypeError(`${name} is not a function`);
      e.addEventListener(name.slice(2), value);
    } else if (name === "href") {
      // Links may lead only to pages of the console, and to the sign-in with the identity provider.
      if (!/^(#|\/auth\/)/.test(value)) throw new TypeError("a link leads elsewhere");
      e.setAttribute(name, value);
    } else if (allowed.has(name) || name.startsWith("aria-") || name.startsWith("data-")) {
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

// long shows a text. Of a long text, it shows only the beginning and the end, with a button between
// them that shows more.
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

// relate points an element's attribute, such as aria-describedby, to another element.
let ids = 0;
export function relate(e, attribute, other) {
  if (!attribute.startsWith("aria-")) throw new TypeError(`attribute ${attribute} does not relate elements`);
  if (!other) return e.removeAttribute(attribute);
  other.id ||= `e${++ids}`;
  e.setAttribute(attribute, other.id);
}

// fill replaces the content of an element.
export function fill(e, ...children) {
  e.replaceChildren();
  put(e, children);
  return e;
}

// download saves a text as a file of the user.
export function download(name, text) {
  const a = document.createElement("a");
  a.download = name;
  a.href = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

// announce announces a text to screen readers.
export function announce(text) {
  document.getElementById("said").textContent = text;
}
