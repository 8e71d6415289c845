// The audit log: who changed what, when and from where.
import { h } from "../dom.js";
import { table, relativeTime, field, asyncAction, emptyState, badge, json } from "../parts.js";
import { get } from "../api.js";

const pageSize = 100;
const names = ["actor", "action", "target"];

export async function audit({ query, signal }) {
  const filter = Object.fromEntries(names.map((n) => [n, query.get(n) ?? ""]).filter(([, v]) => v));
  const load = (cursor) => get(`/v1/audit?${new URLSearchParams({ limit: pageSize, ...filter, ...(cursor ? { cursor } : {}) })}`, signal);
  const first = await load();
  let next = first.next_cursor;
  const body = h("div", null, records(first.records, Object.keys(filter).length > 0));
  const place = h("div");
  const more = h("button", { type: "button", class: "quiet", hidden: !next }, "Older records");
  more.addEventListener("click", asyncAction(more, place, async () => {
    const page = await load(next);
    next = page.next_cursor;
    more.hidden = !next;
    body.querySelector("tbody").append(...page.records.map(row));
  }));
  return h("section", null, h("h1", { tabindex: "-1" }, "Audit log"),
    h("p", { class: "lead" }, "Changes of keys, members, policies, modules, agents and secrets, answers to questions, and sign-ins. Nobody can change it."),
    filters(filter), body, place, more);
}

function filters(filter) {
  const inputs = names.map((n) => {
    const input = h("input", { type: "search", name: n, maxlength: "300", placeholder: { actor: "key:… or user:…", action: "key.create", target: "an id" }[n], spellcheck: "false", autocapitalize: "none" });
    input.value = filter[n] ?? "";
    return input;
  });
  return h("form", { class: "filters", role: "search", "aria-label": "Filter records", onsubmit: (e) => {
    e.preventDefault();
    location.hash = `#/audit?${new URLSearchParams(inputs.filter((i) => i.value.trim()).map((i) => [i.name, i.value.trim()]))}`;
  } }, inputs.map((i) => field(i.name.replace(/^./, (c) => c.toUpperCase()), i)), h("button", { type: "submit" }, "Filter"));
}

function records(list, filtered) {
  return table("Audit log", ["Time", "Who", "Action", "Target", "Details", "From"], list.map(row),
    filtered ? emptyState("search", "No matching records", "Other filters may find some.", h("a", { class: "button", href: "#/audit" }, "Show all records")) : emptyState("audit", "No records yet", "Each change of the tenant is recorded here."));
}

function row(r) {
  const detail = r.detail && Object.keys(r.detail).length > 0;
  return h("tr", null, h("td", { class: "soft nowrap" }, relativeTime(r.time)), h("td", { class: "wide" }, r.actor_name || r.actor, r.actor_name && h("span", { class: "soft small" }, ` ${r.actor}`)),
    h("td", { class: "nowrap" }, badge(r.action)), h("td", { class: "wide" }, h("code", null, r.target)),
    h("td", { class: "wide" }, detail && h("details", null, h("summary", null, Object.keys(r.detail).slice(0, 3).join(", ")), json(r.detail))), h("td", { class: "soft nowrap" }, r.address));
}
