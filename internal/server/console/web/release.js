// Parts that the pages of replays and rollouts share: texts, the choice of a version, and the results
// of replays.
import { h } from "./dom.js";
import { get, all } from "./api.js";
import { badge, shortDigest } from "./parts.js";

const maxVersions = 200; // versions in a choice

// outcomes holds the outcomes of a replayed run: the text of the tile, its explanation, and its
// color.
export const outcomes = {
  same: ["No change", "The candidate does exactly what the run did.", "good"],
  different: ["Changed", "Something changes, but the model is asked the same.", "warn"],
  diverged: ["Other path", "The model would be asked something else, so the rest is unknown.", "warn"],
  failed: ["Failed", "The candidate has more faults, ends with an error, or takes too long.", "bad"],
  skipped: ["Not replayed", "The run cannot be replayed.", ""],
};

// kinds holds the texts for the kinds of changes in a run.
export const kinds = { request: "request to the model", message: "answer of the model", call: "tool call", tool_sent: "arguments of a tool", result: "result of a tool", decision: "decision", fault: "fault", event: "event", end: "end of the run" };

const order = ["before_agent", "before_model_rewrite_state", "before_model", "wrap_model", "on_chunk", "after_model", "after_model_rewrite_state",
  "before_tool", "gate_tool", "wrap_tool_call", "call_tool", "after_tool", "tool_messages", "after_tools", "after_agent"]; // of the hooks in a step
const place = (hook) => (order.indexOf(hook) + order.length) % order.length;

// firstHook returns the hook that differs first in a replayed run, or undefined. Fuel alone is no difference: other
// code always uses other fuel.
export function firstHook(run) {
  return (run.hooks ?? []).filter((x) => x.changed_answers > 0 || x.before.calls !== x.after.calls || (x.before.faults ?? 0) !== (x.after.faults ?? 0) || (x.before.failed ?? 0) !== (x.after.failed ?? 0))
    .sort((a, b) => Number(idle(a)) - Number(idle(b)) || stepOf(a) - stepOf(b) || place(a.hook) - place(b.hook))[0];
}

const stepOf = (x) => (x.hook === "after_agent" ? Infinity : x.step);
// idle reports whether a hook that only one version has seems to change nothing in the run.
const idle = (x) => (x.before.calls === 0 || x.after.calls === 0) && x.changed_texts === 0 && !x.before.faults && !x.after.faults && !x.before.decisions && !x.after.decisions;

// endsDifferently reports whether a run ends differently with the candidate: with another last
// message, or for another reason.
export const endsDifferently = (run) => (run.changes ?? []).some((c) => c.kind === "end");

// candidateText returns a text that names the candidate of a replay. names has the names of modules
// by digest.
export function candidateText(r, names) {
  if (r.candidate.version) return `version ${r.candidate.version}`;
  const name = names?.get(r.candidate.digest) ?? (r.candidate.module?.startsWith("sha256:") ? shortDigest(r.candidate.digest) : r.candidate.module);
  return name.split(/[ @]/)[0] === r.candidate.entry.split("@")[0] ? name : `${name} as ${r.candidate.entry}`;
}

const replayStatuses = { queued: ["waiting", "info"], running: ["in progress", "info"], finished: ["finished", "good"], canceled: ["canceled", ""] };
export const replayStatus = (r) => badge(replayStatuses[r.status]?.[0] ?? r.status, `status ${replayStatuses[r.status]?.[1] ?? ""}`);

const rolloutStatuses = { running: ["running", "info"], paused: ["paused", "warn"], promoted: ["promoted", "good"], aborted: ["stopped", ""], rolled_back: ["rolled back", "bad"] };
export const rolloutStatus = (r) => badge(rolloutStatuses[r.status]?.[0] ?? r.status, `status ${rolloutStatuses[r.status]?.[1] ?? ""}`);

// sentence turns a text of the server into a sentence.
export const sentence = (text) => (text ? `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "");

// share formats a fraction as a percentage.
export const share = (x) => `${(100 * x).toFixed(x > 0 && x < 0.0995 ? 1 : 0)} %`;

// load reads an agent, in its newest version, and its aliases.
export async function load(name, signal) {
  const path = `/v1/agents/${encodeURIComponent(name)}`;
  const [agent, aliases] = await Promise.all([get(path, signal), all(`${path}/aliases`, "aliases", signal)]);
  return { agent, aliases };
}

// versionChoice makes a choice of the versions of an agent, the newest first.
export function versionChoice({ agent, aliases }, chosen, without) {
  const names = (v) => [v === agent.version && "newest", ...aliases.filter((a) => a.version === v).map((a) => a.alias)].filter(Boolean).join(", ");
  const versions = Array.from({ length: Math.min(agent.version, maxVersions) }, (_, i) => agent.version - i).filter((v) => v !== without);
  return h("select", null, versions.map((v) => h("option", { value: v, selected: v === chosen }, `Version ${v}${names(v) ? ` · ${names(v)}` : ""}`)));
}

// choice is a labelled radio button.
export function choice(name, value, text, checked, onchange) {
  return h("label", { class: "check" }, h("input", { type: "radio", name, value, checked, onchange }), text);
}

// parts draws the parts of a whole, given as [number, class] pairs, as a bar. Screen readers do not
// read the bar, because the text beside it has the same content.
export function parts(list) {
  const total = list.reduce((n, [x]) => n + x, 0) || 1;
  return h("span", { class: "split", "aria-hidden": "true" }, list.filter(([x]) => x > 0).map(([x, kind]) => {
    const part = h("i", { class: kind });
    part.style.flexGrow = String(x / total);
    return part;
  }));
}
