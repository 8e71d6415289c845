// Blocked modules, for the operator.
import { h } from "../dom.js";
import { table, relativeTime, field, asyncAction, confirmButton } from "../parts.js";
import { all, call } from "../api.js";

export async function blocks({ signal, again }) {
  const list = await all("/v1/blocks", "blocks", signal);
  const what = h("input", { type: "text", class: "code", required: true, pattern: "(sha256:)?[0-9a-f]{64}", placeholder: "sha256:…", spellcheck: "false", autocapitalize: "none", title: "The SHA-256 of a module in hexadecimal" });
  const why = h("input", { type: "text", required: true, maxlength: "1000" });
  const place = h("div");
  const button = h("button", { type: "submit", class: "bad" }, "Block");
  return h("section", null, h("h1", { tabindex: "-1" }, "Blocked modules"),
    h("p", { class: "soft" }, "Within a second, no server of the database calls a blocked module any more, for any tenant. Active runs that use it end."),
    table("Blocked modules", ["Digest", "Reason", "Since", "Action"], list.map((b) => h("tr", null, h("td", null, h("code", { class: "digest" }, b.digest)), h("td", { class: "wide" }, b.reason), h("td", { class: "soft nowrap" }, relativeTime(b.created)),
      h("td", null, confirmButton("Unblock", "Unblock this module?", async () => {
        await call("DELETE", `/v1/blocks/${encodeURIComponent(b.digest)}`);
        await again();
      })))), "No blocked modules."),
    h("form", { class: "card stack narrow", method: "post", onsubmit: asyncAction(button, place, async () => {
      await call("PUT", `/v1/blocks/${encodeURIComponent(what.value.trim())}`, { body: { reason: why.value.trim() } });
      await again();
    }) }, h("h2", null, "Block a module"), field("Digest", what), field("Reason", why, "Tenants whose runs end see this reason."), place, h("div", null, button)));
}
