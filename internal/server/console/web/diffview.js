// Shows differences: of texts by words or by lines, of messages by parts, and of tool calls by
// arguments. Unchanged parts are folded.
import { h, fill, partialList, runInSlices, long } from "./dom.js";
import { badge } from "./parts.js";
import { textOf, indentJSON, count } from "./format.js";
import { diff, blocks } from "./diff.js";

const maxImmediateDiff = 2000; // characters that are compared at once
const context = 3; // unchanged lines next to a change
const maxRows = 60; // rows that are shown at once
const maxLine = 2000; // characters of a line that are shown at once
const maxProse = 6; // lines of a text that is shown as prose
const maxSame = 360; // unchanged characters of prose between two changes

// textDiff shows the difference of two texts. With kind "code", it is shown by lines.
export function textDiff(what, before, after, kind = "") {
  return figure(what, [part("", before, after, kind)]);
}

// figure shows parts under a title. If there are lines to align, it has a button that shows the texts
// side by side.
function figure(what, parts, ...notes) {
  const shown = h("div", { class: "parts" });
  const draw = (split) => fill(shown, notes, parts.map((p) => p(split)));
  const b = h("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => {
    const split = b.ariaPressed !== "true";
    b.ariaPressed = String(split);
    draw(split);
  } }, "Side by side");
  draw(false);
  return h("figure", { class: "diff" }, h("figcaption", null, h("span", null, what), parts.length > 0 && b), shown);
}

// part returns a function that shows the difference of two texts, below a label.
function part(label, before, after, kind) {
  return (split) => {
    const place = h("div");
    const lines = (text) => text.split("\n", maxProse + 1).length;
    const show = () => {
      if (split) fill(place, sideBySide(blocks(before, after), kind));
      else if (kind !== "code" && lines(before) <= maxProse && lines(after) <= maxProse) fill(place, prose(before, after));
      else fill(place, unified(blocks(before, after), kind));
    };
    if (before.length + after.length <= maxImmediateDiff) show();
    else runInSlices(() => (split || place.isConnected) && show());
    return label ? [h("p", { class: "label" }, label), place] : place;
  };
}

const changed = { gone: "del", new: "ins", same: "span" };
const word = ({ kind, text }, limit) => h(changed[kind], null, long(text, limit, 200));

// prose shows the difference of two texts by words, within their sentences.
function prose(before, after) {
  return h("p", { class: "said" }, partialList(diff(before, after), 400, (p) => word(p, p.kind === "same" ? maxSame : 8000), {}, "span"));
}

// row shows a line. parts is its difference.
function row(kind, parts) {
  return h("div", { class: `row ${kind}` }, h("span", { class: "sign", "aria-hidden": "true" }, { gone: "−", new: "+" }[kind] ?? ""),
    h("span", null, typeof parts === "string" ? long(parts, maxLine, 1) : parts.map((p) => word(p, maxLine))));
}

// folded shows unchanged lines near changes, and a button for those that are further away. make shows
// a line.
function folded(lines, i, last, make) {
  const head = i === 0 ? 0 : context;
  const tail = i === last ? 0 : context;
  const hidden = lines.length - head - tail;
  if (hidden < 2) return lines.map(make);
  const b = h("button", { type: "button", class: "fold", onclick: () => {
    const made = partialList(lines.slice(head, lines.length - tail), maxRows, make, {}, "div").flat();
    b.replaceWith(...made);
    made[0].tabIndex = -1;
    made[0].focus({ preventScroll: true });
  } }, `⋯ ${count(hidden)} unchanged lines`);
  return [...lines.slice(0, head).map(make), b, ...lines.slice(lines.length - tail).map(make)];
}

// unified shows removed lines above the lines that replace them.
function unified(list, kind) {
  const rows = list.flatMap((b, i) => (b.same ? folded(b.same, i, list.length - 1, (text) => row("same", text))
    : [...b.gone.map((p) => ["gone", p]), ...b.added.map((p) => ["new", p])]));
  return h("div", { class: `rows ${kind}` }, partialList(rows, maxRows, (r) => (r instanceof Node ? r : row(...r)), {}, "div"));
}

// sideBySide shows the text before on the left, and the text after on the right.
function sideBySide(list, kind) {
  const pair = (a, b) => h("div", { class: "pairs" }, a ?? h("div", { class: "row none" }), b ?? h("div", { class: "row none" }));
  const rows = list.flatMap((b, i) => (b.same ? folded(b.same, i, list.length - 1, (text) => pair(row("same", text), row("same", text)))
    : Array.from({ length: Math.max(b.gone.length, b.added.length) }, (_, k) => [b.gone[k], b.added[k]])));
  return h("div", { class: `rows split ${kind}` }, partialList(rows, maxRows, (r) => (r instanceof Node ? r : pair(r[0] && row("gone", r[0]), r[1] && row("new", r[1]))), {}, "div"));
}

// messageDiff shows the difference of two messages: of the text, of each tool call, and of other
// fields. It returns nothing if the messages differ only in fields that the host sets. If the message
// was added or removed, the other one is undefined.
export function messageDiff(what, before, after) {
  const [a, b] = [before ?? {}, after ?? {}];
  const notes = [];
  const parts = [];
  const add = (label, x, y, kind) => x !== y && parts.push(part(label, x, y, kind));
  if (before && after && a.role !== b.role) notes.push(h("p", { class: "note" }, "role: ", h("del", null, a.role), " ", h("ins", null, b.role)));
  add("", textOf(a.content), textOf(b.content));
  if (Array.isArray(a.content) || Array.isArray(b.content)) add("parts", mediaOf(a.content), mediaOf(b.content), "code");
  add("reasoning", a.reasoning_content ?? "", b.reasoning_content ?? "");
  for (const [x, y] of pairCalls(a.tool_calls ?? [], b.tool_calls ?? [])) callDiff(x?.function, y?.function, add, notes);
  add("other fields", otherFields(before), otherFields(after), "code");
  if (parts.length === 0 && notes.length === 0 && before && after) return undefined;
  const state = !before ? badge("added", "good") : !after ? badge("removed", "bad") : "";
  return figure([what, " ", state], parts, notes);
}

// callDiff shows the change of a tool call: its name, and its arguments as indented JSON.
function callDiff(a, b, add, notes) {
  const name = h("code", null, (b ?? a).name);
  if (a && b && a.name !== b.name) notes.push(h("p", { class: "note" }, "tool: ", h("del", null, a.name), " ", h("ins", null, b.name)));
  add(["call of ", name, !a ? [" ", badge("added", "good")] : !b ? [" ", badge("removed", "bad")] : ""], a ? indentJSON(a.arguments) : "", b ? indentJSON(b.arguments) : "", "code");
}

// pairCalls returns pairs of calls with the same id.
function pairCalls(a, b) {
  const rest = new Map(b.map((c) => [c.id, c]));
  const pairs = a.map((c) => {
    const other = rest.get(c.id);
    rest.delete(c.id);
    return [c, other];
  });
  return [...pairs, ...[...rest.values()].map((c) => [undefined, c])];
}

// mediaOf returns the parts of a content that are not text, as JSON.
const mediaOf = (content) => (Array.isArray(content) ? JSON.stringify(content.filter((p) => p?.type !== "text"), null, 2) : "");

// otherFields returns a message without the fields that are shown separately, and without the fields
// that the host sets.
function otherFields(m) {
  const { id, origin, role, content, reasoning_content, tool_calls, name, ...rest } = m ?? {};
  return Object.keys(rest).length > 0 ? JSON.stringify(rest, null, 2) : "";
}
