// Tenants with their quotas, policies and keys, for the operator.
import { h, icon } from "../dom.js";
import { emptyState, table, relativeTime, properties, field, asyncAction, confirmButton } from "../parts.js";
import { count, bytes, short } from "../format.js";
import { get, all, call } from "../api.js";
import { openSheet } from "../dialog.js";
import { keyList } from "../keys.js";
import { memberTable, addMember, roles } from "../members.js";
import { toast } from "../toast.js";
import { totals, rows } from "./usage.js";

// The quotas: name, label, unit, and the default.
const quotas = [["concurrent_runs", "Concurrent runs"], ["runs_per_day", "Runs per day"], ["tokens_per_day", "Tokens per day"], ["fuel_per_day", "Fuel per day"],
  ["modules", "Modules"], ["storage_bytes", "Storage", bytes], ["value_bytes", "Durable values", bytes, 64 << 20], ["journal_bytes", "Journals", bytes, 4 * 2 ** 30], ["journal_bytes_per_day", "Journals per day", bytes, 2 * 2 ** 30], ["memory_bytes", "Memory of runs", bytes], ["upload_bytes", "Upload", bytes], ["input_bytes", "Run input", bytes, 1 << 20], ["concurrent_requests", "Concurrent requests", count, 4096], ["requests_per_minute", "Requests per minute"],
  ["threads", "Threads", count, 100_000], ["thread_messages", "Messages of a thread", count, 10_000], ["thread_bytes", "Size of a thread", bytes, 16 << 20], ["queued_runs", "Queued runs of a thread", count, 16]];

// The lists of a policy: name, label and hint.
const lists = [["grants", "Grants", "That agents may give to modules. A trailing * matches anything. Default: read:*"], ["models", "Models", "That agents may use. Default: any, with the tenant's own credentials"],
  ["params", "Model parameters", "In addition to those that cannot raise the price"], ["hosts", "Hosts", "That modules and MCP servers may reach. Default: none"], ["upstreams", "Upstreams", "Hosts of the tenant's gateway. Default: any with a public address"]];

export async function tenants({ query, signal }) {
  const cursor = query.get("cursor") ?? "";
  const { tenants: list, next_cursor: next } = await get(`/v1/tenants?${new URLSearchParams({ limit: 100, ...(cursor ? { cursor } : {}) })}`, signal);
  const add = (kind) => h("button", { type: "button", class: kind, onclick: create }, icon("plus"), "Create a tenant");
  return h("section", null, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Tenants"), add("main")),
    table("Tenants", ["Tenant", "Name", "#Concurrent runs", "#Runs per day", "#Tokens per day", "Created"], list.map((t) => h("tr", null, h("td", null, h("a", { href: `#/tenants/${t.id}` }, t.id)), h("td", { class: "wide" }, t.name),
      ["concurrent_runs", "runs_per_day", "tokens_per_day"].map((q) => h("td", { class: "number" }, t.quota[q] ? short(t.quota[q]) : h("span", { class: "soft" }, "no limit"))), h("td", { class: "soft nowrap" }, relativeTime(t.created)))),
    emptyState("tenants", "No tenants yet", "Tenants have their own modules, agents, runs and keys. Create one here, or with:", add(""), "agent-runner tenants create TENANT")),
    next && h("p", null, h("a", { class: "button", href: `#/tenants?cursor=${next}` }, "More tenants")));
}

function create() {
  openSheet("Create a tenant", (close) => {
    const id = h("input", { type: "text", required: true, maxlength: "63", pattern: "[a-z0-9][a-z0-9._\\-]*", placeholder: "acme", spellcheck: "false", autocapitalize: "none" });
    const name = h("input", { type: "text", maxlength: "200", placeholder: "Acme Ltd" });
    const place = h("div");
    const go = h("button", { type: "submit", class: "main" }, "Create");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      const t = await call("POST", "/v1/tenants", { body: { id: id.value.trim(), ...(name.value.trim() ? { name: name.value.trim() } : {}) } });
      close();
      toast("Created. Its first key is made below.");
      location.hash = `#/tenants/${t.id}`;
    }) }, field("Id", id, "It cannot be changed later."), field("Name", name), place, h("div", null, go));
  });
}

export async function tenant({ id, signal, again }) {
  const path = `/v1/tenants/${encodeURIComponent(id)}`;
  const [t, u, k, people] = await Promise.all([get(path, signal), get(`${path}/usage`, signal), all(`${path}/keys`, "keys", signal), all(`${path}/members`, "members", signal)]);
  const used = { runs_per_day: u.total.runs, tokens_per_day: u.total.prompt_tokens + u.total.completion_tokens, fuel_per_day: u.total.fuel, journal_bytes: u.kept.journal_bytes, journal_bytes_per_day: u.total.journal_bytes };
  return h("article", null, h("p", { class: "crumbs" }, h("a", { href: "#/tenants" }, "Tenants"), "/", h("span", null, t.id)),
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, t.name), confirmButton("Delete", "Delete the tenant with all its data?", async () => {
      await call("DELETE", path);
      toast("Deleted.");
      location.hash = "#/tenants";
    })),
    properties(["Id", t.id], ["Created", relativeTime(t.created)], ["Changed", relativeTime(t.updated)]),
    h("section", null, h("div", { class: "head" }, h("h2", { class: "grow" }, "Quotas"), h("button", { type: "button", onclick: () => editQuota(path, t, again) }, "Change")), table("Quotas", ["Quota", "#Limit", "Used"], quotas.map(([name, label, show = count, otherwise = 0]) => {
      const limit = t.quota[name] || otherwise;
      return h("tr", null, h("td", null, label), h("td", { class: "number" }, limit > 0 ? show(limit) : h("span", { class: "soft" }, "no limit")),
        h("td", null, used[name] !== undefined && (limit > 0 ? [h("meter", { min: "0", max: limit, high: limit * 0.9, value: Math.min(used[name], limit), "aria-label": `${label} used` }), ` ${show(used[name])}`] : show(used[name]))));
    }))),
    h("section", null, h("div", { class: "head" }, h("h2", { class: "grow" }, "Policy"), h("button", { type: "button", onclick: () => editPolicy(path, t, again) }, "Change")),
      table("Policy", ["What agents may use", "Allowed"], lists.map(([name, label, hint]) => h("tr", null, h("td", null, label, h("br"), h("span", { class: "soft small" }, hint)),
        h("td", { class: "wide" }, t.policy[name]?.length > 0 ? h("code", null, t.policy[name].join(", ")) : h("span", { class: "soft" }, "the default")))))),
    h("section", null, h("div", { class: "head" }, h("h2", { class: "grow" }, "Members"), h("button", { type: "button", onclick: () => addMember(`${path}/members`, roles, again) }, "Add a member")), memberTable(`${path}/members`, people, roles, again, "No members.")),
    h("section", null, keyList(`${path}/keys`, k, again)),
    h("section", null, h("h2", null, "Used today"), totals(u.total, u.kept), rows(u.rows)));
}

function editQuota(path, t, again) {
  openSheet("Quotas", (close) => {
    const inputs = quotas.map(([name, label, show = count, otherwise = 0]) => {
      const input = h("input", { type: "number", min: "0", step: "1", name, placeholder: otherwise ? String(otherwise) : "no limit" });
      input.value = t.quota[name] ?? "";
      return field(label, input, show === bytes ? "Bytes" : undefined);
    });
    return change(path, again, close, h("div", { class: "properties" }, inputs), () => ({
      quota: Object.fromEntries(inputs.map((f) => f.querySelector("input")).filter((i) => Number(i.value) > 0).map((i) => [i.name, Number(i.value)])) }));
  });
}

function editPolicy(path, t, again) {
  openSheet("Policy", (close) => {
    const inputs = lists.map(([name, label, hint]) => {
      const input = h("input", { type: "text", name, spellcheck: "false", autocapitalize: "none", placeholder: "one, another" });
      input.value = (t.policy[name] ?? []).join(", ");
      return field(label, input, hint);
    });
    const steps = h("input", { type: "number", min: "0", max: "100000", step: "1", placeholder: "1000" });
    steps.value = t.policy.max_steps ?? "";
    return change(path, again, close, [inputs, field("Steps of a run", steps)], () => ({ policy: {
      ...Object.fromEntries(inputs.map((f) => f.querySelector("input")).map((i) => [i.name, i.value.split(",").map((x) => x.trim()).filter(Boolean)]).filter(([, v]) => v.length > 0)),
      ...(Number(steps.value) > 0 ? { max_steps: Number(steps.value) } : {}) } }));
  });
}

// change is a form that changes a tenant.
function change(path, again, close, content, body) {
  const place = h("div");
  const go = h("button", { type: "submit", class: "main" }, "Save");
  return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
    await call("PATCH", path, { body: body() });
    close();
    toast("Saved.");
    await again();
  }) }, content, place, h("div", null, go));
}
