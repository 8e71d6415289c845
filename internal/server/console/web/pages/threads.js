// The list of threads, and the form that creates one.
import { h, icon } from "../dom.js";
import { field, table, emptyState, asyncAction, relativeTime, badge } from "../parts.js";
import { count } from "../format.js";
import { get, all, call } from "../api.js";
import { openSheet } from "../dialog.js";

const pageSize = 50;
const names = ["agent", "subject", "metadata"];
const labels = { agent: ["Agent", "any", "63"], subject: ["End user", "any", "200"], metadata: ["Metadata", "name:value", "600"] };

export async function threads({ query, signal }) {
  const filter = Object.fromEntries(names.map((n) => [n, query.get(n) ?? ""]).filter(([, v]) => v));
  const load = (cursor) => get(`/v1/threads?${new URLSearchParams({ limit: pageSize, ...filter, ...(cursor ? { cursor } : {}) })}`, signal);
  const first = await load();
  let next = first.next_cursor;
  const body = h("div", null, rows(first.threads, Object.keys(filter).length > 0, signal));
  const place = h("div");
  const more = h("button", { type: "button", class: "quiet", hidden: !next }, "Older threads");
  more.addEventListener("click", asyncAction(more, place, async () => {
    const page = await load(next);
    next = page.next_cursor;
    more.hidden = !next;
    body.querySelector("tbody").append(...page.threads.map(row));
  }));
  return h("section", null, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Threads"), newThread("main", signal)),
    h("p", { class: "lead" }, "Conversations. Each run of a thread continues from the messages before it."),
    filters(filter), body, place, more);
}

function filters(filter) {
  const inputs = names.map((n) => {
    const [, placeholder, maxlength] = labels[n];
    const input = h("input", { type: "search", name: n, maxlength, placeholder, spellcheck: "false", autocapitalize: "none", title: n === "metadata" ? "A name, a colon and a value" : undefined, pattern: n === "metadata" ? "[^:]+:.*" : undefined });
    input.value = filter[n] ?? "";
    return input;
  });
  return h("form", { class: "filters", role: "search", "aria-label": "Filter threads", onsubmit: (e) => {
    e.preventDefault();
    location.hash = `#/threads?${new URLSearchParams(inputs.filter((i) => i.value.trim()).map((i) => [i.name, i.value.trim()]))}`;
  } }, inputs.map((i) => field(labels[i.name][0], i)), h("button", { type: "submit" }, "Filter"));
}

function rows(list, filtered, signal) {
  return table("Threads", ["Thread", "Agent", "#Messages", "End user", "Metadata", "Last activity"], list.map(row),
    filtered ? emptyState("search", "No matching threads", "Other filters may find some.", h("a", { class: "button", href: "#/threads" }, "Show all threads"))
      : emptyState("threads", "No threads yet", "A thread keeps a conversation over several runs. Create one here, or with POST /v1/threads.", newThread("main", signal)));
}

function row(t) {
  const metadata = Object.entries(t.metadata ?? {});
  return h("tr", null, h("td", { class: "wide" }, h("a", { href: `#/threads/${t.id}` }, titleOf(t)), " ", t.run && badge("in progress", "status info")),
    h("td", { class: "nowrap" }, t.agent), h("td", { class: "number" }, count(t.messages)), h("td", null, t.subject),
    h("td", { class: "wide" }, metadata.slice(0, 2).map(([k, v]) => badge(`${k}: ${v.length > 24 ? `${v.slice(0, 24)}…` : v}`)), metadata.length > 2 && h("span", { class: "soft small" }, `+${metadata.length - 2}`)),
    h("td", { class: "soft nowrap" }, relativeTime(t.updated)));
}

// titleOf returns the title of a thread, or a text in its place.
export const titleOf = (t) => t.title || (t.messages > 0 ? t.id : "New thread");

function newThread(kind, signal) {
  return h("button", { type: "button", class: kind, onclick: () => create(signal) }, icon("plus"), "New thread");
}

async function create(signal) {
  const agents = await all("/v1/agents", "agents", signal).catch(() => []);
  openSheet("New thread", (close) => {
    if (agents.length === 0) return emptyState("agents", "No agents yet", "A thread needs an agent that answers.", h("a", { class: "button main", href: "#/edit" }, "Create an agent"));
    const agent = h("select", { required: true }, agents.map((a) => h("option", { value: a.name }, a.name)));
    const title = h("input", { type: "text", maxlength: "200", placeholder: "the first message" });
    const place = h("div");
    const go = h("button", { type: "submit", class: "main" }, "Create");
    return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
      const t = await call("POST", "/v1/threads", { body: { agent: agent.value, ...(title.value.trim() ? { title: title.value.trim() } : {}) } });
      close();
      location.hash = `#/threads/${t.id}`;
    }) }, field("Agent", agent, "It answers each message, unless a run names another one."), field("Title", title), place, h("div", null, go));
  });
}
