// The tenant's own keys.
import { h, icon } from "../dom.js";
import { all } from "../api.js";
import { keyTable, createKey } from "../keys.js";

const path = "/v1/keys";

export async function keys({ signal, again }) {
  const list = await all(path, "keys", signal);
  return h("section", null, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Keys"), h("button", { type: "button", class: "main", onclick: () => createKey(path, again) }, icon("plus"), "Create a key")),
    h("p", { class: "lead" }, "Programs sign in with keys. A key can do less than you, but not more."), keyTable(path, list, again));
}
