// The page of a run: its messages, its records and its interrupts.
import { h, fill, partialList, announce } from "../dom.js";
import { properties, statusOf, relativeTime, digest, confirmButton, errorMessage, json, table, badge } from "../parts.js";
import { duration, short, count, textOf, indentJSON } from "../format.js";
import { get, call, events, pause, isTemporary, retryReason, countdown } from "../api.js";
import { question } from "../interrupts.js";
import { deleteDrafts } from "../drafts.js";
import { timeline } from "../timeline.js";
import { message } from "../message.js";
import { Activity } from "../activity.js";
import { changes } from "../history.js";

const maxLogs = 500; // lines of modules' logs that are shown
const maxMessages = 60; // messages that are shown at once
const maxFaults = 30;
const updateInterval = 3000; // milliseconds between updates of a paused run
const maxLiveText = 10000; // shown characters of an unfinished message

export async function run({ id, signal, again }) {
  const r = await get(`/v1/runs/${encodeURIComponent(id)}`, signal);
  const page = new Page(r, signal, again);
  await page.reload();
  page.followEvents();
  return page.element;
}

class Page {
  constructor(r, signal, again) {
    this.run = r;
    this.signal = signal;
    this.again = again;
    this.events = []; // without chunks
    this.streamed = new Map(); // the text of the chunks, by step
    this.lastSeq = 0;
    this.drawn = {};
    this.expanded = { talk: {}, changes: {}, faults: {} }; // how much the user has opened
    this.cards = new Map(); // the interrupts that are shown, by their ids
    this.lastReloadMS = 0; // milliseconds that the last update took
    this.live = ""; // the model's text that is not in the history yet
    this.complete = false; // the message in live is complete
    this.title = h("h1", { tabindex: "-1" });
    this.activity = new Activity(signal);
    this.part = Object.fromEntries(["actions", "facts", "wrong", "asks", "talk", "line", "changes", "modules", "faults", "connection"].map((n) => [n, h("div", { class: `part-${n}` })]));
    const p = this.part;
    this.element = h("article", { class: "run" },
      h("p", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs"), " / ", h("code", null, r.id)),
      h("div", { class: "head" }, this.title, p.connection, p.actions),
      p.facts, p.wrong, p.asks, p.faults, this.contents(),
      sticky(h("div", { class: "columns" },
        h("section", { "aria-labelledby": "talk" }, h("h2", { id: "talk", tabindex: "-1" }, "Conversation"), p.talk),
        h("div", null, this.activity.element,
          h("section", { "aria-labelledby": "line" }, h("h2", { id: "line", tabindex: "-1" }, "Timeline"), p.line),
          h("section", { "aria-labelledby": "changes" }, h("h2", { id: "changes", tabindex: "-1" }, "Steps"), p.changes),
          p.modules)), signal));
  }

  // contents makes links to the parts of the page if they are stacked. They are buttons, since the address
  // selects the page.
  contents() {
    return h("nav", { class: "contents", "aria-label": "On this page" }, [["talk", "Conversation"], ["line", "Timeline"], ["changes", "Steps"]].map(([id, text]) => h("button", { type: "button", onclick: () => {
      const to = document.getElementById(id);
      to.scrollIntoView({ block: "start" });
      to.focus({ preventScroll: true });
    } }, text)));
  }

  // reload loads all of the run's data again from the server.
  async reload() {
    const path = `/v1/runs/${encodeURIComponent(this.run.id)}`;
    const none = (e) => {
      if (this.signal.aborted) throw e;
      return undefined;
    };
    // A queued run has no history, and a run in progress has no trace.
    const whole = this.complete;
    const [r, history, trace] = await Promise.all([get(path, this.signal), get(`${path}/history`, this.signal).catch(none), get(`${path}/trace`, this.signal).catch(none)]);
    const before = this.run.status;
    this.run = r;
    this.history = history ?? this.history;
    this.trace = trace ?? this.trace;
    if (history && whole && this.complete) this.live = "";
    if (r.status !== before) announce(`The run is ${r.status === "paused" ? "waiting for an answer" : r.status}.`);
    this.draw();
  }

  // scheduleReload reloads once for all calls at about the same time, and less often the longer a reload
  // takes.
  scheduleReload(ms = Math.max(150, 3 * this.lastReloadMS)) {
    if (this.reloading) {
      this.reloadAgain = true;
      return;
    }
    this.timer ??= setTimeout(async () => {
      this.reloading = true;
      const began = performance.now();
      try {
        if (!this.signal.aborted) await this.reload();
      } catch (e) {
        if (this.signal.aborted) return;
        fill(this.part.wrong, errorMessage(e));
        if (isTemporary(e)) this.retry(e);
      } finally {
        this.lastReloadMS = performance.now() - began;
        this.timer = undefined;
        this.reloading = false;
        if (this.reloadAgain) this.scheduleReload();
        this.reloadAgain = false;
      }
    }, ms);
  }

  async retry(e) {
    await countdown(e.retry || 3, this.signal, (s) => fill(this.part.wrong, h("p", { class: "wrong" }, `${retryReason(e)}. Retrying in ${s} s`)));
    this.scheduleReload(0);
  }

  async followEvents() {
    if (this.following) return;
    this.following = true;
    try {
      for await (const e of events(this.run.id, this.lastSeq, this.signal, (on, text) => this.showConnection(on, text), { activity: true })) {
        if (e.type === "activity") {
          this.activity.show(e);
          continue;
        }
        this.lastSeq = e.seq;
        this.handle(e);
      }
      this.showConnection(undefined);
    } catch (e) {
      if (!this.signal.aborted) fill(this.part.wrong, errorMessage(e));
    } finally {
      this.following = false;
    }
    if (!this.signal.aborted) this.scheduleReload(0);
    this.reloadTrace();
  }

  // reloadTrace reloads once more, since a run's timeline is stored shortly after its last event.
  async reloadTrace() {
    const known = this.trace?.timelines?.length ?? 0;
    await pause(1500, this.signal);
    if (!this.signal.aborted && (this.trace?.timelines?.length ?? 0) === known && known < this.starts()) this.scheduleReload(0);
  }

  // questions returns all interrupts so far, by their ids.
  questions() {
    return new Map(this.events.flatMap((e) => (e.type === "run_paused" ? e.interrupts ?? [] : [])).map((i) => [i.id, i]));
  }

  // starts returns how often the run was started or resumed.
  starts() {
    return this.events.filter((e) => e.type === "run_paused" || e.type === "run_finished").length;
  }

  showConnection(on, text) {
    const active = on !== undefined && ["running", "queued"].includes(this.run.status);
    fill(this.part.connection, active && h("span", { class: `live ${on ? "" : "off"}` }, on ? "live" : text));
  }

  handle(e) {
    if (e.type === "chunk") {
      if (e.chunk?.kind === "text") {
        if (!e.chunk.call_id) this.streamed.set(e.step, (this.streamed.get(e.step) ?? "") + e.chunk.text);
        this.live = (this.complete ? "" : this.live) + e.chunk.text;
        this.complete = false;
        this.frame ??= requestAnimationFrame(() => { // once, however many pieces arrive
          this.frame = undefined;
          this.drawLive();
        });
      }
      return;
    }
    this.events.push(e);
    this.activity.handle(e);
    if (e.type === "model_attempt" || e.type === "run_resumed") this.live = "";
    if (e.type === "message" && e.message?.role === "assistant" || e.type === "run_finished") {
      if (this.live && e.message) this.live = textOf(e.message.content);
      this.complete = true;
      this.drawLive();
    }
    if (["run_started", "message", "tool_call", "tool_result", "step_finished", "run_paused", "run_finished", "run_resumed", "fault", "custom", "log", "limit"].includes(e.type)) this.scheduleReload();
  }

  draw() {
    const r = this.run;
    const title = r.title || r.id;
    this.title.dataset.title = title;
    if (this.title.textContent !== title) this.title.textContent = title;
    const over = r.status === "finished";
    const action = over ? "delete" : "cancel";
    if (this.action !== action) {
      this.action = action;
      const path = `/v1/runs/${encodeURIComponent(r.id)}`;
      fill(this.part.actions, over
        ? [h("a", { class: "button", href: `#/compare?${new URLSearchParams({ a: r.id })}` }, "Compare"), h("a", { class: "button", href: `#/start?agent=${encodeURIComponent(r.agent)}` }, "Start another"), confirmButton("Delete", "Delete permanently?", async () => {
          await call("DELETE", path);
          location.hash = "#/runs";
        })]
        : confirmButton("Cancel", "Cancel this run?", async () => {
          await call("POST", `${path}/cancel`);
          this.scheduleReload(0);
          this.followEvents();
        }, ""));
    }
    fill(this.part.facts, properties(["Status", statusOf(r)],
      ["Thread", r.thread && h("a", { href: `#/threads/${r.thread}` }, "Thread")],
      ["Agent", r.agent && h("a", { href: `#/agents/${r.agent}${r.version ? `?version=${r.version}` : ""}` }, `${r.agent}${r.version ? ` v${r.version}` : ""}`)],
      ["Started", relativeTime(r.created)], ["Took", over && duration((new Date(r.updated) - new Date(r.created)) * 1000)],
      ["Steps", count(r.step)], ["Tokens", `${short(r.usage.total_tokens)}`], ["Fuel", short(r.fuel)]));
    fill(this.part.wrong, r.error && h("p", { class: "wrong", role: "alert" }, r.error));
    this.activity.setActive(r.status === "running", new Map((r.modules ?? []).map((m) => [m.entry, m.digest])));
    this.drawInterrupts();
    this.drawConversation();
    this.redraw("changes", [this.history, this.questions().size, this.starts(), r.status === "finished"], () => changes(r.status === "finished", this.history, this.events, this.streamed, this.questions(), (this.places = new Map()), this.expanded.changes));
    this.redraw("line", [this.trace, r.status, this.events.length, this.drawn.changes.length], () => timeline(this.trace, this.events, ["running", "queued"].includes(r.status), this.places));
    this.redraw("modules", [r.modules, this.trace, r.status], () => this.modules());
    this.redraw("faults", this.events.length, () => this.faults());
    if (over) this.showConnection(undefined);
    if (r.status === "paused") this.poll();
  }

  // redraw draws a part of the page again only if its data has changed. Otherwise it would undo what
  // the user has opened, scrolled or selected in the part.
  redraw(name, from, make) {
    const text = JSON.stringify(from) ?? "";
    if (this.drawn[name] === text) return;
    this.drawn[name] = text;
    fill(this.part[name], make());
  }

  // drawInterrupts does not redraw an unchanged interrupt: the user may be about to answer it.
  drawInterrupts() {
    const list = this.run.status === "paused" ? this.run.interrupts ?? [] : [];
    const cards = list.map((i) => {
      const text = JSON.stringify(i);
      let known = this.cards.get(i.id);
      if (known?.text !== text) {
        known = { text, card: question(i, this.draft(i.id), (value) => this.answer(i.id, value)) };
        this.cards.set(i.id, known);
      }
      return known.card;
    });
    const place = this.part.asks;
    for (const c of [...place.children]) if (!cards.includes(c)) c.remove();
    // A card that moves would lose the focus.
    cards.forEach((c, i) => place.children[i] !== c && place.insertBefore(c, place.children[i] ?? null));
  }

  // draft returns the prefix of the names of drafts of the answer to an interrupt.
  draft(id) {
    return `${this.run.id}/${id}/`;
  }

  // poll updates a paused run: others may answer or cancel it.
  async poll() {
    if (this.polling) return;
    this.polling = true;
    let wait = updateInterval;
    while (!this.signal.aborted && this.run.status === "paused") {
      await pause(wait, this.signal);
      if (this.signal.aborted || document.hidden) continue;
      try {
        const r = await get(`/v1/runs/${encodeURIComponent(this.run.id)}`, this.signal);
        wait = updateInterval;
        if (r.updated === this.run.updated && r.status === this.run.status) continue;
        await this.reload();
        this.followEvents();
      } catch (e) {
        if (this.signal.aborted) break;
        if (!isTemporary(e)) {
          fill(this.part.wrong, errorMessage(e));
          break;
        }
        wait = Math.min(60000, Math.max(wait * 2, (e.retry ?? 0) * 1000));
      }
    }
    this.polling = false;
  }

  async answer(id, value) {
    await call("POST", "/v1/runs", { body: { run: this.run.id, answers: { [id]: value } } });
    deleteDrafts(this.draft(id));
    this.cards.get(id)?.card.remove();
    this.cards.delete(id);
    this.title.focus({ preventScroll: true });
    await this.reload();
    this.followEvents();
  }

  drawConversation() {
    const list = this.history?.messages ?? [];
    this.tail ??= h("div", { class: "message assistant", hidden: true }, h("p", { class: "by" }, "assistant", h("span", { class: "live" })), h("p", { class: "said" }));
    this.redraw("talk", [list, this.run.status], () => [ list.length === 0 && h("p", { class: "empty" }, ["running", "queued"].includes(this.run.status) ? "Starting…" : "No messages."),
      h("ol", { class: "talk" }, partialList(list, maxMessages, (m) => message(m), this.expanded.talk)), this.tail]);
    this.drawLive();
  }

  drawLive() {
    if (!this.tail) return;
    this.tail.hidden = this.live === "";
    this.tail.querySelector(".said").textContent = this.live.length > maxLiveText ? `…${this.live.slice(-maxLiveText)}` : this.live;
  }

  faults() {
    const bad = this.events.filter((e) => e.type === "fault" || e.type === "limit" || e.type === "repair" || e.type === "model_attempt");
    const logs = this.events.filter((e) => e.type === "log" || e.type === "custom").slice(-maxLogs);
    return [
      bad.length > 0 && h("section", { class: "card bad", "aria-label": "Faults" }, h("h2", null, "Faults and limits"), h("ul", { class: "plain" }, partialList(bad, maxFaults, fault, this.expanded.faults))),
      logs.length > 0 && h("details", { class: "card" }, h("summary", null, `Module logs: ${logs.length} ${logs.length === 1 ? "line" : "lines"}`),
        h("ul", { class: "plain logs" }, logs.map((e) => h("li", null, badge(e.entry || "?"), " ", e.type === "log" ? [h("span", { class: `level ${e.level}` }, e.level), " ", e.text] : [h("strong", null, e.name), " ", h("code", null, JSON.stringify(e.data))])))),
    ];
  }

  modules() {
    const list = this.run.modules ?? [];
    if (list.length === 0) return null;
    const last = this.events.findLast((e) => e.type === "run_finished");
    const used = new Map((last?.entries ?? []).map((s) => [s.entry, s]));
    for (const s of (this.trace?.timelines ?? []).flatMap((t) => t.spans)) {
      if (last || s.kind !== "hook") continue;
      const u = used.get(s.entry) ?? { calls: 0, faults: 0, wall_us: 0, fuel: 0 };
      used.set(s.entry, { calls: u.calls + 1, faults: u.faults + (s.error ? 1 : 0), wall_us: u.wall_us + (s.own_us ?? 0), fuel: u.fuel + (s.fuel ?? 0) });
    }
    return h("section", { "aria-labelledby": "modules" }, h("h2", { id: "modules" }, "Modules"),
      table("Modules of the run", ["Module", "#Calls", "#Faults", "#Time", "#Fuel", "Digest"], list.map((m) => {
        const u = used.get(m.entry);
        return h("tr", null, h("td", null, m.digest ? h("a", { href: `#/modules/${m.digest}` }, m.entry) : m.entry), h("td", { class: "number" }, u ? count(u.calls) : "–"), h("td", { class: `number ${u?.faults ? "bad" : ""}` }, u ? count(u.faults) : "–"),
          h("td", { class: "number nowrap" }, u ? duration(u.wall_us) : "–"), h("td", { class: "number" }, u ? short(u.fuel) : "–"),
          h("td", null, m.digest && digest(m.digest)));
      })));
  }
}

// sticky keeps the shorter of two columns visible: its end, if it is higher than the window.
function sticky(columns, signal) {
  const place = () => {
    for (const c of columns.children) c.style.top = `${Math.min(16, innerHeight - c.offsetHeight - 16)}px`;
  };
  const seen = new ResizeObserver(place);
  for (const c of columns.children) seen.observe(c);
  window.addEventListener("resize", place, { signal });
  signal.addEventListener("abort", () => seen.disconnect());
  return columns;
}

function fault(e) {
  if (e.type === "model_attempt") return h("li", null, badge(e.model || "model", "warn"), ` attempt ${e.attempt} failed: ${e.error?.message ?? ""}`);
  if (e.type === "limit") return h("li", null, badge("limit", "warn"), ` ${e.limit}${e.name ? ` of ${e.name}` : ""}: ${e.action ?? ""}`);
  if (e.type === "repair") return h("li", null, badge("repair", "warn"), ` ${e.call ? `result of ${e.call.name || "a tool"} (${e.call.id})` : e.value}: ${e.action}`);
  return h("li", null, badge(e.entry || "module", "bad"), ` ${e.hook ?? ""}: ${e.cause ?? ""}${e.limit ? ` (limit ${e.limit}: ${e.value})` : ""}${e.action ? ` – ${e.action.replaceAll("_", " ")}` : ""}`,
    (e.stderr ?? []).length > 0 && h("pre", { class: "excerpt", tabindex: "0" }, e.stderr.join("\n")));
}
