// The interrupts of a run, answered with a click.
import { h } from "./dom.js";
import { field, asyncAction, badge, json } from "./parts.js";
import { indentJSON } from "./format.js";
import { draft } from "./drafts.js";

// question shows an interrupt and calls onAnswer with the answer. Typed text is saved as drafts
// whose names begin with name.
export function question(i, name, onAnswer) {
  const place = h("div");
  const kind = i.client ? client : i.hook === "gate_tool" ? gate : other;
  return h("div", { class: "card ask", role: "group", "aria-label": `Question ${i.id}` },
    h("h2", null, i.client ? "Client tool call" : i.hook === "gate_tool" ? "Approve this tool call?" : "The run needs an answer"),
    h("p", { class: "reason" }, !i.client && i.reason, " ", i.entry && badge(`asked by ${i.entry}`), i.agent && badge(`agent ${i.agent}`)),
    i.payload !== undefined && i.payload !== null && h("details", { open: true }, h("summary", null, "Details"), json(i.payload)),
    i.call && h("div", { class: "call" }, h("span", { class: "soft" }, "Call "), h("code", null, i.call.name), i.hook !== "gate_tool" && json(indentJSON(i.call.arguments))),
    kind(i, (field, what) => draft(field, `${name}${what}`), onAnswer, place), place);
}

// button makes a button that submits an answer.
function button(text, kind, place, make, onAnswer) {
  const b = h("button", { type: "button", class: kind }, text);
  b.addEventListener("click", asyncAction(b, place, () => onAnswer(make())));
  return b;
}

function gate(i, withDraft, onAnswer, place) {
  const before = indentJSON(i.call?.arguments ?? "{}");
  const editor = h("textarea", { class: "code", rows: String(Math.min(14, Math.max(3, before.split("\n").length))), spellcheck: "false" });
  editor.value = before;
  withDraft(editor, "arguments");
  const why = withDraft(h("input", { type: "text", placeholder: "The model sees this reason", maxlength: "2000" }), "why");
  const approve = button("Approve", "good", place, () => {
    if (editor.value === before) return { decision: "approve" };
    let parsed;
    try {
      parsed = JSON.parse(editor.value);
    } catch (e) {
      editor.focus();
      throw new Error(`The arguments are not valid JSON: ${e.message}`);
    }
    if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) throw new Error("The arguments must be a JSON object.");
    return { decision: "edit", arguments: editor.value };
  }, onAnswer);
  const updateLabel = () => (approve.textContent = editor.value === before ? "Approve" : "Approve with these arguments");
  editor.addEventListener("input", updateLabel);
  updateLabel();
  const deny = button("Deny", "bad", place, () => ({ decision: "deny", ...(why.value.trim() ? { message: why.value.trim() } : {}) }), onAnswer);
  return h("div", { class: "stack" }, field("Arguments", editor, "If you change the arguments, the tool is called with the changed ones."),
    field("Reason, if you deny", why), h("div", { class: "buttons" }, approve, deny));
}

function client(i, withDraft, onAnswer, place) {
  const text = withDraft(h("textarea", { rows: "4" }), "answer");
  return h("div", { class: "stack" }, field("Tool result", text), h("div", { class: "buttons" },
    button("Send", "main", place, () => text.value, onAnswer),
    button("Send as an error", "bad", place, () => ({ content: text.value, is_error: true }), onAnswer)));
}

function other(i, withDraft, onAnswer, place) {
  const text = withDraft(h("textarea", { class: "code", rows: "3", spellcheck: "false" }), "answer");
  return h("div", { class: "stack" }, field("Answer", text, "JSON or plain text."), h("div", { class: "buttons" },
    button("Yes", "good", place, () => true, onAnswer), button("No", "bad", place, () => false, onAnswer),
    button("Send", "main", place, () => {
      try {
        return JSON.parse(text.value);
      } catch {
        return text.value;
      }
    }, onAnswer)));
}
