// The tenant's secrets, by name: the server never returns their values.
import { h, icon } from "../dom.js";
import { table, relativeTime, field, asyncAction, confirmButton, emptyState } from "../parts.js";
import { all, call } from "../api.js";
import { openSheet } from "../dialog.js";
import { toast } from "../toast.js";

const path = "/v1/secrets";

export async function secrets({ signal, again }) {
  const list = await all(path, "secrets", signal);
  const add = (kind) => h("button", { type: "button", class: kind, onclick: () => set("", again) }, icon("plus"), "Set a secret");
  return h("section", null, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Secrets"), add("main")),
    h("p", { class: "lead" }, "Credentials of models, tools and modules. Agents name them; nobody can read them."),
    table("Secrets", ["Name", "Changed", "Action"], list.map((s) => h("tr", null, h("td", { class: "wide" }, h("code", null, s.name)), h("td", { class: "soft nowrap" }, relativeTime(s.updated)),
      h("td", null, h("div", { class: "buttons" }, h("button", { type: "button", class: "quiet", onclick: () => set(s.name, again) }, "Replace"),
        confirmButton("Delete", "Delete permanently?", async () => {
          await call("DELETE", `${path}/${encodeURIComponent(s.name)}`);
          toast("Deleted.");
          await again();
        }))))), emptyState("secrets", "No secrets yet", "api_key_env in an agent names one, such as OPENAI_API_KEY. Set it here, or with:", add(""), "agent-runner secrets set OPENAI_API_KEY")));
}

// set opens the form that stores a secret's value.
function set(known, again) {
  openSheet(known ? "Replace the secret" : "Set a secret", (close) => {
    const name = h("input", { type: "text", class: "code", required: true, maxlength: "63", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", placeholder: "OPENAI_API_KEY", spellcheck: "false", autocapitalize: "none", readonly: known !== "" });
    name.value = known;
    const value = h("input", { type: "password", required: true, autocomplete: "new-password", maxlength: "65536" });
    const place = h("div");
    const go = h("button", { type: "submit", class: "main" }, "Store");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      await call("PUT", `${path}/${encodeURIComponent(name.value.trim())}`, { body: { value: value.value } });
      close();
      toast("Stored.");
      await again();
    }) }, field("Name", name), field("Value", value, "It is stored encrypted and never shown."), place, h("div", null, go));
  });
}
