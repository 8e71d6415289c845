// A thread: its conversation, run by run, and the form that continues it.
import { h, fill, icon, partialList, download } from "../dom.js";
import { properties, relativeTime, field, asyncAction, confirmButton, errorMessage, badge, statusOf, plural } from "../parts.js";
import { bytes, count, short, textOf } from "../format.js";
import { get, all, call, read } from "../api.js";
import { openSheet } from "../dialog.js";
import { message } from "../message.js";
import { Turn } from "../turn.js";
import { draft, deleteDrafts } from "../drafts.js";
import { toast } from "../toast.js";
import { titleOf } from "./threads.js";

const pageSize = 500; // messages that are loaded at once
const maxRuns = 200; // runs whose status is shown
const maxMessages = 60; // messages that are shown at once
const concurrency = { reject: "is rejected", queue: "waits for its turn", cancel: "cancels the run in progress" };

export async function thread({ id, signal, again }) {
  const page = new Page(id, signal, again);
  await page.load();
  return page.element;
}

class Page {
  #expanded = {};

  constructor(id, signal, again) {
    this.path = `/v1/threads/${encodeURIComponent(id)}`;
    this.id = id;
    this.signal = signal;
    this.again = again;
    this.title = h("h1", { tabindex: "-1" });
    this.facts = h("div");
    this.talk = h("div");
    this.live = h("div");
    this.composer = h("div", { class: "composer" });
    this.element = h("article", { class: "thread" },
      h("p", { class: "crumbs" }, h("a", { href: "#/threads" }, "Threads"), "/", h("code", null, id)),
      h("div", { class: "head" }, this.title, this.#actions()), this.facts,
      h("section", { "aria-label": "Conversation" }, this.talk, this.live), this.composer);
  }

  #actions() {
    const place = h("span", { class: "inline" });
    const save = h("button", { type: "button" }, "Export");
    save.addEventListener("click", asyncAction(save, place, async () => download(`${this.id}.jsonl`, await read(`${this.path}/export`, this.signal))));
    return [h("button", { type: "button", onclick: () => this.#edit() }, "Edit"), save, place,
      confirmButton("Delete", "Delete with its runs?", async () => {
        await call("DELETE", this.path);
        toast("Deleted.");
        location.hash = "#/threads";
      })];
  }

  // load loads the thread, and shows it.
  async load() {
    const [t, first, runs] = await Promise.all([get(this.path, this.signal), this.#messages(), this.#runs()]);
    this.thread = t;
    this.runs = new Map(runs.map((r) => [r.id, r]));
    this.messages = first.messages;
    this.next = first.next_cursor;
    this.draw();
  }

  #messages(cursor) {
    return get(`${this.path}/messages?${new URLSearchParams({ limit: pageSize, ...(cursor ? { cursor } : {}) })}`, this.signal);
  }

  async #runs() {
    return (await get(`/v1/runs?${new URLSearchParams({ thread: this.id, limit: maxRuns })}`, this.signal)).runs;
  }

  draw() {
    const t = this.thread;
    const title = titleOf(t);
    this.title.dataset.title = title;
    fill(this.title, title);
    fill(this.facts, properties(["Agent", t.agent && h("a", { href: `#/agents/${t.agent.split("@")[0]}` }, t.agent)], ["Messages", count(t.messages)], ["Size", bytes(t.bytes)], ["End user", t.subject],
      ["A second run", concurrency[t.concurrency]], ["Metadata", Object.keys(t.metadata ?? {}).length > 0 && Object.entries(t.metadata).map(([k, v]) => badge(`${k}: ${v}`))],
      ["Forked from", t.parent && h("a", { href: `#/threads/${t.parent}` }, "another thread")],
      ["Created", relativeTime(t.created)], ["Last activity", relativeTime(t.updated)]));
    this.#drawTalk();
    this.#drawComposer();
    const waiting = [...this.runs.values()].filter((r) => r.status === "queued").length;
    if (t.run && this.running !== t.run) this.#follow(t.run);
    else if (!t.run) fill(this.live, waiting > 0 && h("p", { class: "soft" }, `${plural(waiting, "run")} waiting.`));
  }

  #drawTalk() {
    const items = [];
    let run;
    for (const m of this.messages) {
      if (m.run && m.run !== run) items.push({ divider: (run = m.run) });
      items.push(m);
    }
    const more = h("button", { type: "button", class: "quiet" }, "Load more messages");
    const place = h("div");
    more.addEventListener("click", asyncAction(more, place, async () => {
      const page = await this.#messages(this.next);
      this.messages.push(...page.messages);
      this.next = page.next_cursor;
      this.#drawTalk();
    }));
    fill(this.talk, items.length === 0 && !this.thread.run && h("p", { class: "empty" }, "No messages yet. Write the first one below."),
      h("ol", { class: "talk" }, partialList(items, maxMessages, (x) => (x.divider ? this.#divider(x.divider) : message(x.message, this.#forkButton(x))), this.#expanded)),
      this.next && [h("p", { class: "soft" }, `The first ${count(this.messages.length)} of ${count(this.thread.messages)} messages. `), more, place]);
  }

  // #divider makes the line above the messages of a run.
  #divider(id) {
    const r = this.runs.get(id);
    return h("li", { class: "divider" }, h("a", { href: `#/runs/${id}` }, r ? `Run of ${r.agent}${r.version ? ` v${r.version}` : ""}` : "Run"),
      r && [statusOf(r), h("span", { class: "soft" }, relativeTime(r.created)), h("span", { class: "soft" }, `${short(r.usage.total_tokens)} tokens`),
        r.faults > 0 && badge(plural(r.faults, "fault"), "bad"), r.denials > 0 && badge(plural(r.denials, "denial"), "warn")]);
  }

  #forkButton(m) {
    const place = h("span", { class: "inline" });
    const b = h("button", { type: "button", class: "quiet", "aria-label": `Fork from message ${m.position + 1}`, title: "A new thread with the messages up to this one" }, icon("fork"), "Fork");
    b.addEventListener("click", asyncAction(b, place, async () => {
      const t = await call("POST", `${this.path}/fork`, { body: { message: m.id } });
      toast("This is the new thread.");
      location.hash = `#/threads/${t.id}`;
    }));
    return [b, place];
  }

  #drawComposer() {
    if (this.composer.childElementCount > 0) return; // what is typed stays
    const text = draft(h("textarea", { rows: "1", required: true, placeholder: "Write a message", "aria-label": "Message" }), `thread/${this.id}`);
    const place = h("div");
    const button = h("button", { type: "submit", class: "main", title: "Ctrl+Enter" }, "Send");
    text.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.currentTarget.form.requestSubmit();
    });
    let id = submission();
    const send = asyncAction(button, place, async () => {
      const said = text.value;
      const r = await call("POST", "/v1/runs", { body: { thread: this.id, input: said }, headers: { "Idempotency-Key": id } });
      id = submission(); // the next message is another run
      deleteDrafts(`thread/${this.id}`);
      text.value = "";
      if (r.status === "queued") return this.load();
      this.#follow(r.id, said);
    });
    const agents = !this.thread.agent && h("p", { class: "wrong" }, "The thread has no agent. Edit it and choose one.");
    fill(this.composer, agents, h("form", { class: "card", method: "post", onsubmit: send, "aria-label": "Continue the thread" }, h("div", { class: "send" }, text, button), place));
  }

  // #follow shows a run while it is in progress. said is the message that started the run; by
  // default, #follow reads it from the server.
  async #follow(run, said) {
    const here = said !== undefined;
    this.talk.querySelector(".empty")?.remove();
    this.running = run;
    if (!here) {
      const { input } = await get(`/v1/runs/${encodeURIComponent(run)}/history`, this.signal).catch(() => ({}));
      said = textOf(input?.findLast((m) => m.role === "user")?.content);
    }
    this.turn = new Turn(run, { signal: this.signal, said, onEnd: async (r) => {
      this.running = undefined;
      await this.load();
      fill(this.live, r.error && [errorMessage(new Error(r.error)), h("p", { class: "soft" }, "The thread has the messages that it had before this run. ", h("a", { href: `#/runs/${run}` }, "Show the run"))]);
    } });
    fill(this.live, this.turn.element);
    if (here) window.scrollTo(0, document.documentElement.scrollHeight);
    this.turn.follow();
  }

  async #edit() {
    const agents = await all("/v1/agents", "agents", this.signal).catch(() => []);
    const t = this.thread;
    openSheet("Edit the thread", (close) => {
      const title = h("input", { type: "text", maxlength: "200", placeholder: "the first message" });
      title.value = t.title ?? "";
      const known = agents.some((a) => a.name === t.agent);
      const agent = h("select", null, !t.agent && h("option", { value: "" }, "none"), t.agent && !known && h("option", { value: t.agent, selected: true }, t.agent), agents.map((a) => h("option", { value: a.name, selected: a.name === t.agent }, a.name)));
      const second = h("select", null, Object.entries(concurrency).map(([value, text]) => h("option", { value, selected: value === t.concurrency }, `It ${text}`)));
      const place = h("div");
      const go = h("button", { type: "submit", class: "main" }, "Save");
      return h("form", { class: "stack", method: "post", onsubmit: asyncAction(go, place, async () => {
        await call("PATCH", this.path, { body: { title: title.value.trim(), concurrency: second.value, ...(agent.value ? { agent: agent.value } : {}) } });
        close();
        toast("Saved.");
        await this.again();
      }) }, field("Title", title, "Empty: the first user message."), field("Agent", agent, "Of the next runs."), field("A run that starts while another one is in progress", second), place, h("div", null, go));
    });
  }
}

// submission returns a new key for a request, so that repeating the request starts no second run.
const submission = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
