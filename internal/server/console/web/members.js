// Tables of members, with forms that add people and change their roles.
import { h } from "./dom.js";
import { table, relativeTime, field, asyncAction, confirmButton, badge } from "./parts.js";
import { call } from "./api.js";
import { openSheet } from "./dialog.js";
import { toast } from "./toast.js";

// The roles, with a description of what each may access.
export const roles = { owner: "everything in the tenant", developer: "modules, agents, runs and secrets", approver: "reads, and answers questions of runs", viewer: "reads modules, agents, runs and usage" };
export const operatorRoles = { admin: "everything on the server", support: "reads what operators see" };

export const roleChoice = (list, chosen) => h("select", null, Object.entries(list).map(([role, may]) => h("option", { value: role, selected: role === chosen }, `${role}: ${may}`)));

// memberTable shows members. path is the address of the list, such as /v1/members.
export function memberTable(path, list, choices, again, empty) {
  return table("Members", ["Person", "Role", "Joined", "Action"], list.map((m) => h("tr", null,
    h("td", { class: "wide" }, m.name || m.email || m.subject, m.name && h("span", { class: "soft" }, ` ${m.email ?? m.subject ?? ""}`)), h("td", null, badge(m.role, "info")),
    h("td", { class: "soft nowrap" }, m.joined ? relativeTime(m.joined) : "not yet"),
    h("td", null, h("div", { class: "buttons" }, h("button", { type: "button", class: "quiet", onclick: () => changeRole(path, m, choices, again) }, "Change role"),
      confirmButton("Remove", "Remove this person?", async () => {
        await call("DELETE", `${path}/${encodeURIComponent(m.id)}`);
        toast("Removed.");
        await again();
      }))))), empty);
}

function changeRole(path, m, choices, again) {
  openSheet("Change the role", (close) => {
    const role = roleChoice(choices, m.role);
    const place = h("div");
    const go = h("button", { type: "submit", class: "main" }, "Save");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      await call("PATCH", `${path}/${encodeURIComponent(m.id)}`, { body: { role: role.value } });
      close();
      toast("Saved.");
      await again();
    }) }, h("p", null, m.name || m.email || m.subject), field("Role", role), place, h("div", null, go));
  });
}

// addMember opens the form that adds a person.
export function addMember(path, choices, again) {
  openSheet("Add a member", (close) => {
    const email = h("input", { type: "email", required: true, maxlength: "254", placeholder: "ann@example.com" });
    const name = h("input", { type: "text", maxlength: "200" });
    const role = roleChoice(choices, "developer");
    const place = h("div");
    const go = h("button", { type: "submit", class: "main" }, "Add");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      await call("POST", path, { body: { email: email.value.trim(), role: role.value, ...(name.value.trim() ? { name: name.value.trim() } : {}) } });
      close();
      toast("Added.");
      await again();
    }) }, field("E-mail address", email, "Whoever signs in with this verified address is the member. No invitation is sent."), field("Name", name), field("Role", role), place, h("div", null, go));
  });
}
