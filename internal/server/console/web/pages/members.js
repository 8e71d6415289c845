// The people of the tenant, and for operators the roles of groups.
import { h, icon } from "../dom.js";
import { table, field, asyncAction, confirmButton, emptyState, badge } from "../parts.js";
import { all, call, isOperator } from "../api.js";
import { openSheet } from "../dialog.js";
import { memberTable, addMember, roleChoice, roles, operatorRoles } from "../members.js";
import { toast } from "../toast.js";

const path = "/v1/members";

export async function members({ signal, again }) {
  const choices = isOperator() ? operatorRoles : roles;
  const [list, groups] = await Promise.all([all(path, "members", signal), isOperator() ? all("/v1/groups", "groups", signal) : undefined]);
  const add = (kind) => h("button", { type: "button", class: kind, onclick: () => addMember(path, choices, again) }, icon("plus"), "Add a member");
  return h("section", null, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Members"), add("main")),
    h("p", { class: "lead" }, "People who sign in with the identity provider, and what they may do."),
    memberTable(path, list, choices, again, emptyState("members", "No members yet", "People are members by their e-mail address. Programs use keys instead.", add(""))),
    groups && groupList(groups, again));
}

function groupList(list, again) {
  return h("section", null, h("div", { class: "head" }, h("h2", { class: "grow" }, "Groups"), h("button", { type: "button", onclick: () => mapGroup(again) }, "Add a group")),
    table("Groups", ["Group", "Tenant", "Role", "Action"], list.map((g) => h("tr", null, h("td", { class: "wide" }, g.group), h("td", null, g.tenant || h("span", { class: "soft" }, "operator")), h("td", null, badge(g.role, "info")),
      h("td", null, confirmButton("Remove", "Remove this group?", async () => {
        await call("DELETE", `/v1/groups/${encodeURIComponent(g.id)}`);
        toast("Removed.");
        await again();
      })))), "No group of the identity provider has a role."));
}

function mapGroup(again) {
  openSheet("Add a group", (close) => {
    const group = h("input", { type: "text", required: true, maxlength: "256", placeholder: "support-team" });
    const tenant = h("input", { type: "text", maxlength: "63", placeholder: "the operator's own", spellcheck: "false", autocapitalize: "none" });
    const role = roleChoice({ ...operatorRoles, ...roles }, "support");
    const place = h("div");
    const go = h("button", { type: "submit", class: "main" }, "Add");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      await call("POST", "/v1/groups", { body: { group: group.value.trim(), role: role.value, ...(tenant.value.trim() ? { tenant: tenant.value.trim() } : {}) } });
      close();
      toast("Added.");
      await again();
    }) }, field("Group", group, "Its name in the groups claim of the identity provider."), field("Tenant", tenant), field("Role", role, "admin and support are roles of operators, the others of tenants."), place, h("div", null, go));
  });
}
