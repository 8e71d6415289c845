// The inbox: questions of all paused runs, answered with mouse or keyboard.
import { h, fill, announce } from "../dom.js";
import { emptyState, relativeTime, plural } from "../parts.js";
import { get, call, pause, countdown, retryReason } from "../api.js";
import { question } from "../interrupts.js";
import { deleteDrafts } from "../drafts.js";
import { toast } from "../toast.js";

const maxRuns = 100; // paused runs that are shown
const updateInterval = 3000; // milliseconds

export async function approvals({ signal }) {
  const inbox = new Inbox(signal);
  await inbox.update();
  inbox.follow();
  return inbox.element;
}

class Inbox {
  #cards = new Map(); // { text, card } by the ids of run and interrupt
  #answered = new Set(); // keys of interrupts that the server may still list

  constructor(signal) {
    this.signal = signal;
    this.count = h("p", { class: "lead", role: "status" });
    this.note = h("span", { class: "live", "aria-hidden": "true" });
    this.list = h("div", { class: "inbox" });
    this.empty = emptyState("inbox", "Nothing waits for an answer", "Questions of modules and tools appear here as soon as a run asks one.", h("a", { class: "button", href: "#/runs" }, "Runs"));
    this.element = h("section", { class: "narrow" }, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Approvals"), this.note), this.count, this.list, this.empty);
    document.addEventListener("keydown", (e) => this.press(e), { signal });
  }

  async update() {
    const { runs } = await get(`/v1/runs?status=paused&limit=${maxRuns}`, this.signal);
    const open = runs.flatMap((r) => (r.interrupts ?? []).map((i) => ({ r, i, key: `${r.id} ${i.id}` }))).filter((x) => !this.#answered.has(x.key));
    for (const key of this.#cards.keys()) if (!open.some((x) => x.key === key)) this.#remove(key);
    for (const { r, i, key } of open) {
      const text = JSON.stringify(i);
      const known = this.#cards.get(key);
      if (known?.text === text) continue;
      const card = this.#card(r, i, key);
      if (known) known.card.replaceWith(card);
      else this.list.append(card);
      this.#cards.set(key, { text, card });
    }
    this.#show();
  }

  #card(r, i, key) {
    const name = `${r.id}/${i.id}/`;
    return h("article", { class: "waiting", tabindex: "-1", "aria-label": r.title || r.id },
      h("p", { class: "by" }, h("a", { href: `#/runs/${r.id}` }, r.title || r.id), h("span", { class: "soft" }, ` ${r.agent}${r.version ? ` v${r.version}` : ""} · `, relativeTime(r.updated))),
      question(i, name, async (value) => {
        await call("POST", "/v1/runs", { body: { run: r.id, answers: { [i.id]: value } } });
        deleteDrafts(name);
        this.#answered.add(key);
        toast("Answered.");
        this.#remove(key);
        this.#show();
      }));
  }

  // #remove removes a card. If it had the focus, the next card gets it.
  #remove(key) {
    const { card } = this.#cards.get(key);
    const next = card.contains(document.activeElement) && (card.nextElementSibling ?? card.previousElementSibling ?? this.element.querySelector("h1"));
    card.remove();
    this.#cards.delete(key);
    if (next) next.focus();
  }

  #show() {
    const n = this.#cards.size;
    this.empty.hidden = n > 0;
    fill(this.count, n > 0 && [plural(n, "question"), ". ", h("kbd", null, "j"), " and ", h("kbd", null, "k"), " move, ", h("kbd", null, "a"), " approves, ", h("kbd", null, "d"), " denies."]);
  }

  press(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, textarea, select, dialog")) return;
    const cards = [...this.list.children];
    const at = cards.findIndex((c) => c.contains(document.activeElement));
    if (e.key === "j" || e.key === "k") {
      const to = cards[Math.max(0, Math.min(cards.length - 1, at < 0 ? 0 : at + (e.key === "j" ? 1 : -1)))];
      to?.focus();
      to?.scrollIntoView({ block: "nearest" });
    } else if ((e.key === "a" || e.key === "d") && at >= 0) {
      cards[at].querySelector(e.key === "a" ? "button.good" : "button.bad")?.click();
    }
  }

  // follow updates the list while it is visible.
  async follow() {
    let wait = updateInterval;
    while (!this.signal.aborted) {
      if (wait === updateInterval) await pause(updateInterval, this.signal);
      if (this.signal.aborted) return;
      if (document.hidden) continue;
      try {
        const before = this.#cards.size;
        await this.update();
        if (this.#cards.size > before) announce("A run asks for an answer.");
        fill(this.note).className = "live";
        wait = updateInterval;
      } catch (e) {
        if (this.signal.aborted) return;
        this.note.className = "live off";
        wait = Math.min(60000, Math.max(wait * 2, (e.retry ?? 0) * 1000));
        await countdown(wait / 1000, this.signal, (s) => fill(this.note, `${retryReason(e)}. Retrying in ${s} s`));
      }
    }
  }
}
