// Tests of the scripts that need no page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const load = (name) => import(`data:text/javascript;base64,${readFileSync(new URL(`../web/${name}`, import.meta.url)).toString("base64")}`);

const { SSE } = await load("sse.js");
const stream = 'retry: 1000\n\n: still here\n\nid: 7\nevent: chunk\ndata: {"a":1}\n\nid: 8\nevent: message\r\ndata: one\r\ndata:two\r\n\r\ndata: x';
for (const size of [1, 2, 3, 7, 1000]) {
  const sse = new SSE();
  const got = [];
  for (let i = 0; i < stream.length; i += size) got.push(...sse.push(stream.slice(i, i + size)));
  assert.deepEqual(got, [{ id: "7", kind: "chunk", data: '{"a":1}' }, { id: "8", kind: "message", data: "one\ntwo" }], `in pieces of ${size}`);
}

const { cut, begin } = await load("cut.js");
for (const [text, chars, lines, want] of [
  ["abc", 10, 10, ["abc", "", ""]], ["", 3, 3, ["", "", ""]], ["a\nb\nc", 100, 3, ["a\nb\nc", "", ""]],
  ["a\nb\nc\nd", 100, 3, ["a\nb\n", "c\n", "d"]], ["0123456789abc", 4, 10, ["01", "23456789a", "bc"]], ["👋👋👋👋", 3, 9, ["", "👋👋👋", "👋"]],
  ["\n\n\n\n\n\n", 100, 2, ["\n", "\n\n\n\n\n", ""]], ["\n".repeat(9), 4, 100, ["\n\n", "\n".repeat(5), "\n\n"]]]) assert.deepEqual(cut(text, chars, lines), want, text);
assert.deepEqual([begin("👋👋", 3, 9), begin("a\nb\nc", 9, 2), begin("abc", 9, 9)], ["👋", "a\nb\n", "abc"]);

const { diff, words, blocks } = await load("diff.js");
assert.deepEqual(diff("tell ann@example.com it", "tell [address] it"), [
  { kind: "same", text: "tell " }, { kind: "gone", text: "ann@example.com" }, { kind: "new", text: "[address]" }, { kind: "same", text: " it" }]);
assert.deepEqual(diff("", "new"), [{ kind: "new", text: "new" }]);
assert.deepEqual(diff("gone", ""), [{ kind: "gone", text: "gone" }]);
assert.deepEqual(diff("", ""), []);
assert.deepEqual(diff("the same", "the same"), [{ kind: "same", text: "the same" }]);
// For any two texts, the parts of the difference make up both.
let seed = 1;
const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
const sample = () => Array.from({ length: random(12) }, () => ["a", "b", " ", "\n", "é", "👋", "x1", ",", "  "][random(9)]).join("");
for (let i = 0; i < 2000; i++) {
  const [a, b] = [sample(), sample()];
  assert.equal(words(a).join(""), a);
  const parts = diff(a, b);
  assert.equal(parts.filter((p) => p.kind !== "new").map((p) => p.text).join(""), a);
  assert.equal(parts.filter((p) => p.kind !== "gone").map((p) => p.text).join(""), b);
}
const file = Array.from({ length: 20000 }, (_, i) => `line ${i}\n`);
const edited = file.with(10000, "another\n").with(10300, "");
assert.deepEqual(diff(file.join(""), edited.join("")).map((p) => [p.kind, p.text.split("\n").length - 1]), [["same", 10000], ["gone", 1], ["new", 1], ["same", 299], ["gone", 1], ["same", 9699]], "a long text, by lines");
const long = (w) => Array.from({ length: 20000 }, (_, i) => w + i).join(" ");
assert.deepEqual(diff(long("a"), long("b")).map((p) => p.kind), ["gone", "new"], "a change that is too large is shown whole");

assert.deepEqual(blocks("one\nbe kind to ann\nend", "one\nbe kind to [x]\nmore\nend"), [{ same: ["one"] }, {
  gone: [[{ kind: "same", text: "be kind to " }, { kind: "gone", text: "ann" }]],
  added: [[{ kind: "same", text: "be kind to " }, { kind: "new", text: "[x]" }], [{ kind: "new", text: "more" }]] }, { same: ["end"] }]);
assert.deepEqual(blocks("abc def", "xyz"), [{ gone: [[{ kind: "gone", text: "abc def" }]], added: [[{ kind: "new", text: "xyz" }]] }], "lines that have little in common");
for (let i = 0; i < 2000; i++) {
  const [a, b] = [sample(), sample()];
  const side = (name) => blocks(a, b).flatMap((x) => x.same ?? x[name].map((r) => r.map((p) => p.text).join(""))).join("\n");
  assert.deepEqual([side("gone"), side("added")], [a, b]);
}
const began = performance.now();
blocks(`${"x ".repeat(1900)}\n`.repeat(900), `${"y ".repeat(1900)}\n`.repeat(900));
assert.ok(performance.now() - began < 5000, "hostile lines are compared as far as the budget lasts");

// timeline.js imports dom.js; computing spans from events needs no elements.
const timeline = readFileSync(new URL("../web/timeline.js", import.meta.url), "utf8").replace(/^import .*$/gm, "");
const { fromEvents } = await import(`data:text/javascript;base64,${Buffer.from(timeline).toString("base64")}`);
const spans = fromEvents([
  { type: "run_started", time_ms: 1000 }, { type: "step_started", step: 1, time_ms: 1000 },
  { type: "message", message: { role: "assistant" }, time_ms: 1040 }, { type: "tool_call", call: { id: "c", name: "now" }, time_ms: 1041 },
  { type: "tool_result", call: { id: "c" }, result: { is_error: true }, time_ms: 1061 }, { type: "step_finished", time_ms: 1062 }, { type: "step_started", step: 2, time_ms: 1063 }]);
assert.deepEqual(spans.map((s) => [s.kind, s.parent, s.start_us, s.took_us, s.error]), [
  ["step", 0, 0, 62000, undefined], ["model", 1, 0, 40000, undefined], ["tool", 1, 41000, 20000, "error"], ["step", 0, 63000, -1, undefined], ["model", 4, 63000, -1, undefined]]);

const { setKey, rewrite } = await load("yaml.js");
const before = "# top\nmodel: {name: a} # x\n\n# list\nmiddlewares:\n- module: a\n# own\ninstruction: |\n  one: two\nlimits:\n  max_steps: 3\n";
for (const [key, value, want] of [
  ["instruction", "Line: one\n  two", before.replace("|\n  one: two", "|-\n  Line: one\n    two")],
  ["middlewares", [{ module: "b", config: { a: [1, "yes"], b: {} } }, {}], before.replace("- module: a", "  - module: b\n    config:\n      a:\n        - 1\n        - \"yes\"\n      b: {}\n  - {}")],
  ["limits", undefined, before.replace("limits:\n  max_steps: 3\n", "")], ["stream", false, `${before}stream: false\n`],
  ["instruction", " lead\n", before.replace("|\n  one: two", '" lead\\n"')], ["instruction", "a: b # c", before.replace("|\n  one: two", '"a: b # c"')]]) assert.equal(setKey(before, key, value), want);
assert.equal(rewrite({ name: "x", n: null, s: "true" }), 'name: x\n"n": null\ns: "true"\n');
assert.equal(rewrite({}), "");

console.log("ok: 5 files");
