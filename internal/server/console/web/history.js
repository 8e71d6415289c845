// The history of a run by phases: the answer of each module, and its changes as a difference.
import { h, partialList } from "./dom.js";
import { badge, json } from "./parts.js";
import { indentJSON, textOf } from "./format.js";
import { textDiff, messageDiff } from "./diffview.js";
import { hookKey } from "./timeline.js";
import { editors } from "./hooks.js";

const maxSteps = 24; // steps that are shown at once

// changes shows a run's history. events are the run's events, and streamed the texts of its chunks by
// step. It records in places where the changes
// of each hook are shown, and in expanded how much of the history the user has opened.
export function changes(finished, history, events, streamed, questions, places, expanded) {
  const phases = history?.phases ?? [];
  const answered = [...(history?.answered ?? [])];
  if (phases.length === 0) return h("p", { class: "empty" }, finished ? "No steps were recorded." : "No steps recorded yet.");
  const calls = new Map();
  for (const m of [...(history.input ?? []), ...(history.messages ?? [])]) for (const c of m.tool_calls ?? []) calls.set(c.id, c.function);
  return [partialList(steps(phases), maxSteps, (p) => phase(p, calls, events, streamed, places), expanded, "p"), answered.length > 0 && h("section", { class: "phase" }, h("h3", null, "Answers from people and clients"),
    h("ul", { class: "calls" }, answered.flatMap((a) => Object.entries(a.answers).map(([id, value]) => answer(questions.get(id), value, a)))))];
}

// steps groups the phases of a step: rewriting, the model, tools and the end of the round.
function steps(phases) {
  const out = [];
  for (const p of phases) {
    const title = p.phase === "start" ? "Before the first step" : p.phase === "end" ? "At the end" : `Step ${p.step}`;
    if (out.at(-1)?.title === title) out.at(-1).calls.push(...p.calls);
    else out.push({ title, step: p.step, calls: [...p.calls] });
  }
  return out;
}

function phase(p, calls, events, streamed, places) {
  const now = { model: undefined, response: undefined, arguments: new Map(), result: new Map() }; // as the previous record left it
  const unchanged = [];
  const shown = [];
  for (const d of p.calls) {
    const what = recordItem(d, now, calls);
    if (!what) {
      unchanged.push(`${d.entry} ${d.what}`);
      continue;
    }
    shown.push(what);
    if (d.entry) places.set(hookKey(p.step, d.entry, d.what, d.call), what);
  }
  const sent = stream(now.model, streamed.get(p.step) ?? "", events);
  if (sent) shown.push(sent);
  return h("section", { class: "phase" },
    h("h3", null, p.title),
    h("ul", { class: "calls" }, shown), unchanged.length > 0 && h("p", { class: "soft small" }, `No changes: ${unchanged.join(", ")}.`));
}

// stream shows how on_chunk hooks changed the stream of a step, or nothing if they did not. The
// answers of these hooks are not recorded. Therefore stream compares the model's answer with the
// chunks that were sent, and names all entries with a hook that can change chunks.
function stream(model, sent, events) {
  const withHook = (hook) => [...new Set(events.flatMap((e) => e.entries ?? []).filter((s) => s.hooks?.[hook] > 0).map((s) => s.entry))].join(", ");
  const [chunks, wraps] = [withHook("on_chunk"), withHook("wrap_model")];
  const answer = textOf(model?.message?.content);
  if (chunks === "" || !model || sent === "" || sent === answer) return undefined;
  return h("li", { class: "deed hook" }, head(chunks, wraps ? `on_chunk, or wrap_model of ${wraps}` : "on_chunk", {}), textDiff("the stream", answer, sent));
}

const decisions = { approve: ["approved", "good"], edit: ["approved with other arguments", "warn"], deny: ["denied", "bad"] };

// answer shows the answer to an interrupt.
function answer(q, value, a) {
  const at = new Date(a.time_ms).toLocaleTimeString("en");
  const decision = q?.hook === "gate_tool" && (value === true ? "approve" : value === false ? "deny" : value?.decision);
  return h("li", { class: "deed" }, h("p", { class: "deed-head" }, h("strong", null, q?.call?.name ?? q?.entry ?? "a question"), " ", h("span", { class: "soft" }, a.by ? `${a.by}, ` : "", at)),
    q?.reason && h("p", { class: "note" }, q.reason),
    decision ? h("p", { class: "note" }, badge(...(decisions[decision] ?? [decision])), " ", value?.message) : json(value),
    decision === "edit" && textDiff("arguments", indentJSON(q.call?.arguments ?? ""), indentJSON(value.arguments), "code"));
}

// recordItem shows a record, or nothing if the record changed nothing.
function recordItem(d, now, calls) {
  const a = d.answer ?? {};
  const parts = [];
  const note = (...x) => parts.push(h("p", { class: "note" }, ...x));
  if (d.failed) parts.push(h("p", { class: "wrong" }, `${d.faulted ? "Fault" : "Failed"}: ${d.failed.message ?? d.failed.code ?? ""}`));
  else if (d.faulted) parts.push(h("p", { class: "wrong" }, "Fault: ignored"));
  if (d.erased) parts.push(h("p", { class: "soft" }, "The answer was erased, because modules changed or removed text. serve --keep-originals keeps it."));
  if (d.what === "model") {
    now.response = now.model = a;
    return h("li", { class: "deed model" }, head("model", a.finish_reason ?? "", d), parts, messageItem(a.message));
  }
  if (d.what === "tool") {
    now.result.set(d.call, a);
    return h("li", { class: "deed tool" }, head("tool", calls.get(d.call)?.name ?? d.call, d), parts, d.answer && h("p", { class: "said clip" }, textOf(a.content)), a.is_error && badge("error", "bad"));
  }
  const where = d.what === "before_model" ? " of the request" : "";
  for (const e of d.edits ?? []) {
    if (e.omitted > 0) note(`${e.omitted} messages were removed from the request; they are too large to show`);
    parts.push(...edit(e, where));
  }
  switch (d.what) {
    case "before_model":
      if (a.request?.model) note("model: ", h("ins", null, a.request.model));
      for (const [name, value] of Object.entries(a.request?.params ?? {})) note(`parameter ${name}: `, h("ins", null, JSON.stringify(value)));
      toolNotes(a.request?.tools, note);
      if (a.response) parts.push(messageDiff("the answer instead of the model's", undefined, a.response.message));
      if (a.response) now.response = a.response;
      break;
    case "before_tool":
      if (a.arguments !== undefined) parts.push(textDiff("arguments", indentJSON(now.arguments.get(d.call) ?? calls.get(d.call)?.arguments ?? ""), indentJSON(a.arguments), "code"));
      if (a.arguments !== undefined) now.arguments.set(d.call, a.arguments);
      break;
    case "after_model":
      if (a.response) parts.push(messageDiff("the model's answer", now.response?.message, a.response.message));
      if (a.response) now.response = a.response;
      break;
    case "after_tool":
      if (a.result) parts.push(textDiff("the tool's result", textOf(now.result.get(d.call)?.content), textOf(a.result.content)));
      if (a.result) now.result.set(d.call, a.result);
      break;
    case "call_tool":
      if (a.result) parts.push(h("p", { class: "said clip" }, textOf(a.result.content)));
      if (a.result) now.result.set(d.call, a.result);
      break;
    case "gate_tool":
      if (a.decision && a.decision !== "allow") note(badge(a.decision, a.decision === "ask" ? "warn" : "bad"), " ", a.message);
      break;
    case "after_agent":
      if (a.final) parts.push(messageDiff("the final message", undefined, a.final));
      break;
  }
  if (a.instruction !== undefined) parts.push(textDiff("the new instruction", "", a.instruction));
  toolNotes(a.tools, note);
  if (a.stop) note(badge("stopped the run", "bad"), " ", a.stop.reason);
  if (a.interrupt) note(badge("asked", "warn"), " ", a.interrupt.reason);
  if (a.again) note(badge("repeated", "warn"), " ", a.again.reason);
  const rest = Object.fromEntries(Object.entries(a).filter(([k, v]) => !isShown(d, k) && v !== null));
  if (Object.keys(rest).length > 0) parts.push(h("details", null, h("summary", null, `Answer: ${Object.keys(rest).join(", ")}`), json(rest)));
  if (!parts.some(Boolean)) return undefined;
  return h("li", { class: "deed hook", tabindex: "-1" }, head(d.entry, d.what, d, calls), parts);
}

// toolNotes shows added and removed tools. A list of tools replaces all.
function toolNotes(tools, note) {
  const add = Array.isArray(tools) ? tools : tools?.add;
  if (add?.length > 0) note(Array.isArray(tools) ? "all tools: " : "tools: ", add.map((t) => h("ins", null, t.name)).flatMap((x) => [x, " "]));
  if (tools?.remove?.length > 0) note("tools: ", tools.remove.map((t) => h("del", null, t)).flatMap((x) => [x, " "]));
}

function isShown(d, name) {
  if (["instruction", "stop", "interrupt", "again"].includes(name)) return true;
  if (name === "tools") return d.answer.tools?.length > 0 || d.answer.tools?.add?.length > 0 || d.answer.tools?.remove?.length > 0;
  if (name === "request") return d.edits?.length > 0 || !d.answer.request?.messages;
  if (name === "messages") return editors.includes(d.what);
  return { before_model: ["response"], before_tool: ["arguments"], after_model: ["response"], after_tool: ["result"], call_tool: ["result"], gate_tool: ["decision", "message", "payload"], after_agent: ["final"] }[d.what]?.includes(name) ?? false;
}

function head(name, what, d, calls) {
  return h("p", { class: "deed-head" }, h("strong", null, name), " ", h("span", { class: "soft" }, what), d.call && calls && h("span", { class: "soft" }, " · ", h("code", null, calls.get(d.call)?.name ?? d.call)));
}

const messageText = (m) => (m ? [textOf(m.content), ...(m.tool_calls ?? []).map((c) => `${c.function?.name}(${c.function?.arguments})`)].filter(Boolean).join("\n") : "");

function messageItem(m) {
  const text = messageText(m);
  return text && h("p", { class: "said clip" }, text);
}

// edit shows changed messages: each removed message next to its replacement.
// where follows the number of the message.
function edit(e, where) {
  const removed = e.removed ?? [];
  const inserted = e.inserted ?? [];
  return Array.from({ length: Math.max(removed.length, inserted.length) }, (_, i) => {
    const [a, b] = [removed[i], inserted[i]];
    return messageDiff(`message ${e.at + i + 1}${where} (${(b ?? a).role})`, a, b);
  }).filter(Boolean);
}

export { textDiff };
