// A turn of a thread: a run whose messages are shown while they arrive, with its questions.
import { h, fill, announce } from "./dom.js";
import { errorMessage, statusOf } from "./parts.js";
import { textOf } from "./format.js";
import { get, call, events } from "./api.js";
import { question } from "./interrupts.js";
import { deleteDrafts } from "./drafts.js";
import { message } from "./message.js";

const maxLiveText = 20000; // shown characters of an unfinished message
const nearEnd = 240; // pixels from the end of the page

// A Turn shows a run of a thread from its first event until it ends. said is the user's message, if it
// was sent here. onEnd is called with the run when it has ended.
export class Turn {
  #text = ""; // of the unfinished message
  #after = 0;

  constructor(run, { signal, said, onEnd }) {
    this.run = run;
    this.signal = signal;
    this.onEnd = onEnd;
    this.list = h("ol", { class: "talk" }, said && message({ role: "user", content: said }));
    this.tail = h("div", { class: "message assistant", hidden: true }, h("p", { class: "by" }, "assistant", h("span", { class: "live" })), h("p", { class: "said" }));
    this.state = h("span", { class: "live" }, "working");
    this.asks = h("div", { class: "asks" });
    this.place = h("div");
    this.element = h("section", { class: "turn", "aria-label": "Current run" },
      h("div", { class: "divider" }, h("a", { href: `#/runs/${run}` }, "Run in progress"), this.state), this.list, this.tail, this.asks, this.place);
  }

  // follow shows the run's events until it ends.
  async follow() {
    try {
      for await (const e of events(this.run, this.#after, this.signal, (on, text) => this.#status(on ? "working" : text, on))) {
        this.#after = e.seq;
        this.#handle(e);
      }
      if (this.signal.aborted) return;
      const run = await get(`/v1/runs/${encodeURIComponent(this.run)}`, this.signal);
      if (run.status === "paused") this.#ask(run);
      else await this.onEnd(run);
    } catch (e) {
      if (!this.signal.aborted) fill(this.place, errorMessage(e));
    }
  }

  #status(text, on) {
    fill(this.state, text).className = on ? "live" : "live off";
  }

  // #add shows a message. Readers at the end of the page stay there.
  #add(m) {
    const atEnd = innerHeight + scrollY > document.documentElement.scrollHeight - nearEnd;
    this.list.append(message(m));
    if (atEnd) window.scrollTo(0, document.documentElement.scrollHeight);
  }

  #handle(e) {
    if (e.type === "chunk" && e.chunk?.kind === "text" && !e.chunk.call_id) {
      this.#text += e.chunk.text;
      this.frame ??= requestAnimationFrame(() => { // once, however many pieces arrive
        this.frame = undefined;
        this.#draw();
      });
    }
    if (e.type === "model_attempt" || e.type === "run_resumed") this.#clear();
    if (e.type === "message") {
      this.#clear();
      this.#add(e.message);
    }
    if (e.type === "tool_result" && e.call) this.#add({ role: "tool", name: e.call.name, tool_call_id: e.call.id, content: textOf(e.result?.content) });
  }

  #clear() {
    this.#text = "";
    this.#draw();
  }

  #draw() {
    const text = this.#text.length > maxLiveText ? `…${this.#text.slice(-maxLiveText)}` : this.#text;
    this.tail.hidden = text === "";
    this.tail.querySelector(".said").textContent = text;
  }

  // #ask shows the questions of a paused run.
  #ask(run) {
    fill(this.state, statusOf(run)).className = "";
    announce("The run is waiting for an answer.");
    fill(this.asks, (run.interrupts ?? []).map((i) => {
      const name = `${run.id}/${i.id}/`;
      return question(i, name, async (value) => {
        await call("POST", "/v1/runs", { body: { run: run.id, answers: { [i.id]: value } } });
        deleteDrafts(name);
        const now = await get(`/v1/runs/${encodeURIComponent(run.id)}`, this.signal);
        if (now.status === "paused") return this.#ask(now);
        fill(this.asks);
        this.#status("working", true);
        this.follow();
      });
    }));
    this.asks.firstElementChild?.scrollIntoView({ block: "nearest" });
  }
}
