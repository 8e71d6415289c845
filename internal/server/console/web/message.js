// Messages of conversations.
import { h } from "./dom.js";
import { badge, json } from "./parts.js";
import { textOf, indentJSON } from "./format.js";

const shortArguments = 60; // characters

// message shows a message with its buttons, actions.
export function message(m, actions) {
  const by = m.origin?.startsWith("module:") ? m.origin.slice(7) : "";
  const text = textOf(m.content);
  const long = m.role === "tool" || text.length > 4000;
  return h("li", { class: `message ${m.role}` },
    h("p", { class: "by" }, m.role === "tool" ? ["tool ", h("code", null, m.name || m.tool_call_id)] : m.role, by && badge(`by ${by}`, "info"), actions && h("span", { class: "actions" }, actions)),
    m.reasoning_content && h("details", null, h("summary", null, "Reasoning"), h("p", { class: "said soft" }, m.reasoning_content)),
    text && (long && text.length > 300 ? h("details", null, h("summary", null, `${text.slice(0, 120).replaceAll("\n", " ")}…`), h("p", { class: "said" }, text)) : h("p", { class: "said" }, text)),
    (m.tool_calls ?? []).map((c) => h("div", { class: "call" }, h("span", { class: "soft" }, "calls "), h("code", null, c.function?.name), args(c.function?.arguments ?? ""))));
}

// args shows the arguments of a call: in the same line if they are short.
const args = (text) => (text.length <= shortArguments && !text.includes("\n") ? [" ", h("code", { class: "soft" }, text)] : json(indentJSON(text)));
