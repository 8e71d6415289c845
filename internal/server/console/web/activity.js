// The activity of the modules of a run in progress.
import { h, fill } from "./dom.js";
import { badge, plural } from "./parts.js";
import { duration, short, bytes, count } from "./format.js";

const tick = 250; // milliseconds between updates of the times of hooks in progress

// An Activity shows each module of a run with its present or last hook, and the resources that it has
// used. It is empty unless the run is in progress.
export class Activity {
  #frame;
  #digests = new Map();
  #decisions = new Map(); // by entry: the last decision
  #rows = new Map(); // by agent and entry
  #offset = 0; // milliseconds from this clock to the server's

  constructor(signal) {
    this.body = h("tbody");
    this.element = h("section", { class: "activity", "aria-labelledby": "activity", hidden: true }, h("h2", { id: "activity" }, "Modules now"),
      h("div", { class: "scroll", role: "region", "aria-label": "What modules do", tabindex: "0" }, h("table", null, h("thead", null, h("tr", null,
        ["Module", "Hook", "Calls", "Time", "Fuel", "Memory", "Result"].map((t) => h("th", { scope: "col", class: ["Calls", "Time", "Fuel", "Memory"].includes(t) ? "number" : "" }, t)))), this.body)));
    const timer = setInterval(() => this.#draw(), tick);
    signal.addEventListener("abort", () => clearInterval(timer));
  }

  // setActive shows the activity if the run is in progress, and hides it otherwise. digests has the
  // modules by entry.
  setActive(active, digests) {
    this.#digests = digests;
    if (!active) this.#frame = undefined;
    this.element.hidden = !this.#frame;
  }

  // show shows a newer frame.
  show(frame) {
    if (!Array.isArray(frame.modules) || frame.modules.length === 0) return;
    this.#frame = frame;
    this.#offset = frame.time_ms - Date.now();
    this.element.hidden = false;
    this.#draw();
  }

  // handle records the decisions of modules, which are events of the run.
  handle(e) {
    if (e.type === "decision" && e.entry) this.#decisions.set(e.entry, e.decision?.decision ?? "");
    if (["run_paused", "run_finished"].includes(e.type)) this.setActive(false, this.#digests);
  }

  #draw() {
    if (!this.#frame) return;
    for (const m of this.#frame.modules) {
      const key = `${m.agent ?? ""}/${m.entry}`;
      let row = this.#rows.get(key);
      if (!row) {
        row = h("tr", null, Array.from({ length: 7 }, (_, i) => h("td", { class: i > 1 && i < 6 ? "number nowrap" : "nowrap" })));
        this.#rows.set(key, row);
        this.body.append(row);
        const digest = this.#digests.get(m.entry);
        fill(row.children[0], digest ? h("a", { href: `#/modules/${digest}` }, m.entry) : m.entry);
      }
      row.classList.toggle("busy", m.running > 0);
      const now = Date.now() + this.#offset - m.since_ms;
      const cells = [[m.running > 0 ? h("span", { class: "live" }, m.hook) : m.hook, m.running > 1 && ` × ${m.running}`], count(m.calls),
        m.running > 0 && now > 1000 ? `${duration(m.own_us)} + ${(now / 1000).toFixed(1)} s` : duration(m.own_us), short(m.fuel), m.memory_bytes > 0 ? bytes(m.memory_bytes) : "–", this.#result(m)];
      cells.forEach((c, i) => this.#fill(row.children[i + 1], c));
    }
  }

  // #fill replaces a cell only if its text changes. Otherwise a selection would be lost and
  // animations would restart.
  #fill(cell, content) {
    const next = h("td", null, content);
    if (next.textContent !== cell.textContent || next.childElementCount !== cell.childElementCount) fill(cell, [...next.childNodes]);
  }

  #result(m) {
    const decision = this.#decisions.get(m.entry);
    const kind = { allow: "good", ask: "warn" }[decision] ?? "bad";
    return [m.faults > 0 && badge(plural(m.faults, "fault"), "bad"), m.failed > 0 && badge(`${count(m.failed)} failed`, "warn"), decision && badge(decision, kind)];
  }
}
