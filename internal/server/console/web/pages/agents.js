// The list of agents.
import { h } from "../dom.js";
import { emptyState, table, relativeTime, badge, plural } from "../parts.js";
import { all } from "../api.js";

export async function agents({ signal }) {
  const list = await all("/v1/agents", "agents", signal);
  const create = () => h("a", { class: "button main", href: "#/edit" }, "New agent");
  return h("section", null, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Agents"), create()),
    h("p", { class: "lead" }, "A model with an instruction, tools and modules. Each change is a new version."),
    table("Agents", ["Agent", "#Version", "Modules", "Changed", "Action"], list.map((a) => h("tr", null,
      h("td", null, h("a", { href: `#/agents/${a.name}` }, a.name)), h("td", { class: "number" }, a.version),
      h("td", { class: "wide" }, a.modules.length === 0 ? h("span", { class: "soft" }, "none") : a.modules.map((m) => badge(m.name)), a.warnings.length > 0 && badge(plural(a.warnings.length, "warning"), "warn")),
      h("td", { class: "soft nowrap" }, relativeTime(a.created)),
      h("td", null, h("a", { href: `#/edit/${a.name}`, "aria-label": `Edit ${a.name}` }, "Edit")))),
    emptyState("agents", "No agents yet", "An agent is a model with an instruction, tools and modules. Create one here, or with:", create(), "agent-runner agents apply agent.yaml")));
}
