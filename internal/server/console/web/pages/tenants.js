// Tenants with their quotas, for the operator.
import { h } from "../dom.js";
import { emptyState, table, relativeTime, properties, badge, confirmButton, json } from "../parts.js";
import { count, bytes, short } from "../format.js";
import { get, all, call } from "../api.js";
import { totals, rows } from "./usage.js";

// The quotas: name, label, unit, and the default.
const quotas = [["concurrent_runs", "Concurrent runs"], ["runs_per_day", "Runs per day"], ["tokens_per_day", "Tokens per day"], ["fuel_per_day", "Fuel per day"],
  ["modules", "Modules"], ["storage_bytes", "Storage", bytes], ["value_bytes", "Durable values", bytes, 64 << 20], ["journal_bytes", "Journals", bytes, 4 * 2 ** 30], ["journal_bytes_per_day", "Journals per day", bytes, 2 * 2 ** 30], ["memory_bytes", "Memory of runs", bytes], ["upload_bytes", "Upload", bytes], ["input_bytes", "Run input", bytes, 1 << 20], ["concurrent_requests", "Concurrent requests", count, 4096], ["requests_per_minute", "Requests per minute"]];

export async function tenants({ query, signal }) {
  const cursor = query.get("cursor") ?? "";
  const { tenants: list, next_cursor: next } = await get(`/v1/tenants?${new URLSearchParams({ limit: 100, ...(cursor ? { cursor } : {}) })}`, signal);
  return h("section", null, h("h1", { tabindex: "-1" }, "Tenants"),
    table("Tenants", ["Tenant", "Name", "#Concurrent runs", "#Runs per day", "#Tokens per day", "Created"], list.map((t) => h("tr", null, h("td", null, h("a", { href: `#/tenants/${t.id}` }, t.id)), h("td", { class: "wide" }, t.name),
      ["concurrent_runs", "runs_per_day", "tokens_per_day"].map((q) => h("td", { class: "number" }, t.quota[q] ? short(t.quota[q]) : h("span", { class: "soft" }, "no limit"))), h("td", { class: "soft nowrap" }, relativeTime(t.created)))), emptyState("tenants", "No tenants yet", "Tenants have their own modules, agents, runs and keys. Create one with:", "agent-runner tenants create TENANT")),
    next && h("p", null, h("a", { class: "button", href: `#/tenants?cursor=${next}` }, "More tenants")));
}

export async function tenant({ id, signal }) {
  const path = `/v1/tenants/${encodeURIComponent(id)}`;
  const [t, u, k] = await Promise.all([get(path, signal), get(`${path}/usage`, signal), all(`${path}/keys`, "keys", signal)]);
  const used = { runs_per_day: u.total.runs, tokens_per_day: u.total.prompt_tokens + u.total.completion_tokens, fuel_per_day: u.total.fuel, journal_bytes: u.kept.journal_bytes, journal_bytes_per_day: u.total.journal_bytes };
  return h("article", null, h("p", { class: "crumbs" }, h("a", { href: "#/tenants" }, "Tenants"), " / ", t.id), h("h1", { tabindex: "-1" }, t.name),
    properties(["Id", t.id], ["Created", relativeTime(t.created)], ["Changed", relativeTime(t.updated)]),
    h("section", null, h("h2", null, "Quotas"), table("Quotas", ["Quota", "#Limit", "Used"], quotas.map(([name, label, show = count, otherwise = 0]) => {
      const limit = t.quota[name] || otherwise;
      return h("tr", null, h("td", null, label), h("td", { class: "number" }, limit > 0 ? show(limit) : h("span", { class: "soft" }, "no limit")),
        h("td", null, used[name] !== undefined && (limit > 0 ? [h("meter", { min: "0", max: limit, high: limit * 0.9, value: Math.min(used[name], limit), "aria-label": `${label} used` }), ` ${show(used[name])}`] : show(used[name]))));
    }))),
    h("section", null, h("h2", null, "Policy"), json(t.policy)),
    h("section", null, h("h2", null, "Used today"), totals(u.total, u.kept), rows(u.rows)),
    h("section", null, h("h2", null, "Keys"), table("Keys", ["Key", "Name", "State", "Used", "Action"], k.map((x) => h("tr", null, h("td", null, h("code", null, `ar_${x.id}_…`)), h("td", null, x.name), h("td", null, state(x)), h("td", { class: "soft nowrap" }, x.used ? relativeTime(x.used) : "never"),
      h("td", null, !x.revoked && confirmButton("Revoke", "Revoke permanently?", async () => {
        await call("DELETE", `${path}/keys/${x.id}`);
        window.dispatchEvent(new HashChangeEvent("hashchange"));
      })))), emptyState("No keys.", `agent-runner keys create NAME --tenant ${t.id}`))));
}

function state(k) {
  if (k.revoked) return badge("revoked", "bad");
  if (k.expires && new Date(k.expires) < new Date()) return badge("expired", "bad");
  return badge("active", "good");
}
