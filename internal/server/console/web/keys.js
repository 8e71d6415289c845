// Tables of keys, with forms that create, rotate and revoke them.
import { h } from "./dom.js";
import { table, relativeTime, badge, field, asyncAction, confirmButton, copyButton } from "./parts.js";
import { call } from "./api.js";
import { openSheet } from "./dialog.js";
import { roles } from "./members.js";
import { toast } from "./toast.js";

const scopes = ["keys:read", "keys:write", "modules:read", "modules:write", "agents:read", "agents:write", "runs:read", "runs:write", "runs:approve", "usage:read", "secrets:write", "tokens:write", "cors:write", "members:read", "members:write", "audit:read"];
const lifetimes = [["", "Never"], [86400 * 7, "In a week"], [86400 * 30, "In 30 days"], [86400 * 90, "In 90 days"], [86400 * 365, "In a year"]];
const graces = [[0, "At once"], [3600, "In an hour"], [86400, "In a day"], [86400 * 7, "In a week"]];

// keyTable shows keys. path is the address of the list, such as /v1/keys.
export function keyTable(path, list, again) {
  return table("Keys", ["Name", "Key", "May", "State", "Used", "Action"], list.map((k) => h("tr", null,
    h("td", { class: "wide" }, k.name), h("td", { class: "nowrap" }, h("code", null, `ar_${k.id}_…`)), h("td", { class: "wide" }, may(k)), h("td", null, state(k)),
    h("td", { class: "soft nowrap" }, k.used ? relativeTime(k.used) : "never"),
    h("td", null, !k.revoked && h("div", { class: "buttons" }, h("button", { type: "button", class: "quiet", onclick: () => rotate(path, k, again) }, "Rotate"),
      confirmButton("Revoke", "Revoke permanently?", async () => {
        await call("DELETE", `${path}/${k.id}`);
        toast("Revoked.");
        await again();
      }))))), "No keys.");
}

function may(k) {
  if (k.role) return badge(k.role, "info");
  if (k.scopes.length > 4) return h("span", { title: k.scopes.join(", ") }, badge(`${k.scopes.length} scopes`));
  return k.scopes.map((s) => badge(s));
}

function state(k) {
  if (k.revoked) return badge("revoked", "bad");
  if (k.expires && new Date(k.expires) < new Date()) return badge("expired", "bad");
  if (k.expires) return h("span", { title: new Date(k.expires).toLocaleString("en") }, badge(`until ${new Date(k.expires).toLocaleDateString("en", { year: "numeric", month: "short", day: "numeric" })}`, "good"));
  return badge("active", "good");
}

const choice = (list) => h("select", null, list.map(([value, text]) => h("option", { value }, text)));

// createKey opens the form that creates a key.
export function createKey(path, again) {
  openSheet("Create a key", (close) => {
    const name = h("input", { type: "text", required: true, maxlength: "200", placeholder: "ci" });
    const boxes = scopes.map((s) => h("input", { type: "checkbox", value: s }));
    const expires = choice(lifetimes);
    const role = h("select", null, h("option", { value: "" }, "The scopes below"), Object.keys(roles).map((r) => h("option", { value: r }, r)));
    const place = h("div");
    const go = h("button", { type: "submit", class: "main" }, "Create");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      const chosen = boxes.filter((b) => b.checked).map((b) => b.value);
      const made = await call("POST", path, { body: { name: name.value.trim(), ...(role.value ? { role: role.value } : chosen.length > 0 ? { scopes: chosen } : {}), ...(expires.value ? { expires_in_seconds: Number(expires.value) } : {}) } });
      close();
      showSecret(made, again);
    }) }, field("Name", name, "What the key is for."), field("Expires", expires), field("Role", role),
    h("fieldset", null, h("legend", null, "Scopes"), h("div", { class: "checks" }, boxes.map((b) => h("label", { class: "check" }, b, b.value))), h("p", { class: "hint" }, "Without a choice, the key may do all that you may.")),
    place, h("div", null, go));
  });
}

function rotate(path, k, again) {
  openSheet("Rotate the key", (close) => {
    const grace = choice(graces);
    const place = h("div");
    const go = h("button", { type: "submit", class: "main" }, "Rotate");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      const made = await call("POST", `${path}/${k.id}/rotate`, { body: { grace_seconds: Number(grace.value) } });
      close();
      showSecret(made, again);
    }) }, h("p", null, `A new key replaces ${k.name}. It may do the same.`), field("The old key ends", grace), place, h("div", null, go));
  });
}

// showSecret shows a new key, once.
function showSecret(k, again) {
  openSheet("The new key", (close) => h("div", { class: "stack" },
    h("p", null, "Copy it now: the server does not store it, and cannot show it again."),
    h("div", { class: "secret" }, h("code", null, k.secret), copyButton(k.secret, "Copy the key")),
    h("div", null, h("button", { type: "button", class: "main", onclick: () => {
      close();
      again();
    } }, "Done"))));
}

// keyList is a section that shows keys, and creates them.
export function keyList(path, list, again) {
  return [h("div", { class: "head" }, h("h2", { class: "grow" }, "Keys"), h("button", { type: "button", onclick: () => createKey(path, again) }, "Create a key")), keyTable(path, list, again)];
}
