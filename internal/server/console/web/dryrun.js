// A dry run: the replay of a stored run with a draft of an agent.
import { h, fill, partialList } from "./dom.js";
import { asyncAction, badge, field, properties, table, plural } from "./parts.js";
import { count, short } from "./format.js";
import { get, call } from "./api.js";
import { textDiff } from "./diffview.js";
import { kinds, outcomes } from "./release.js";

const maxRuns = 50; // runs to choose from
const maxChanges = 20; // changes that are shown at once

// A DryRun is a part of the editor of an agent. draft returns the name and the text in the editor.
export class DryRun {
  #runs = h("select", { class: "wide", disabled: true }, h("option", { value: "" }, "Loading…"));
  #result = h("div", { "aria-live": "polite" });

  constructor(agent, signal, draft) {
    const place = h("div");
    const go = h("button", { type: "button", disabled: true }, "Dry run");
    go.addEventListener("click", asyncAction(go, place, async () => {
      fill(this.#result, h("p", { class: "soft" }, "Replaying…"));
      const { name, yaml } = draft();
      const query = new URLSearchParams(name ? { agent: name } : {});
      try {
        fill(this.#result, report(await call("POST", `/v1/runs/${encodeURIComponent(this.#runs.value)}/dry-run?${query}`, { body: yaml, headers: { "Content-Type": "application/yaml" }, signal })));
      } catch (e) {
        fill(this.#result);
        throw e;
      }
    }));
    this.element = h("section", { class: "card stack dry-run", "aria-label": "Dry run" }, h("div", null, h("h2", null, "Dry run"),
      h("p", { class: "soft" }, "Replays a recorded run with this draft, which is not saved. Models and tools give their recorded answers; nothing outside is called.")),
    h("div", { class: "send" }, field("Recorded run", this.#runs), go), place, this.#result);
    this.#load(agent, signal, go).catch((e) => signal.aborted || fill(this.#runs, h("option", { value: "" }, e.message)));
  }

  async #load(agent, signal, go) {
    const list = (filter) => get(`/v1/runs?${new URLSearchParams({ status: "finished", limit: maxRuns, ...filter })}`, signal);
    let { runs } = agent ? await list({ agent }) : await list({});
    if (runs.length === 0 && agent) ({ runs } = await list({})); // the runs of other agents
    fill(this.#runs, runs.length === 0 ? h("option", { value: "" }, "No finished runs yet")
      : runs.map((r) => h("option", { value: r.id }, `${(r.title || r.id).slice(0, 80)} · ${r.agent}${r.version ? ` v${r.version}` : ""} · ${new Date(r.created).toLocaleString("en")}`)));
    this.#runs.disabled = go.disabled = runs.length === 0;
  }
}

// report shows the differences between the run and its replay.
function report(r) {
  const [text, meaning, kind] = outcomes[r.outcome] ?? [r.outcome, "", ""];
  const pair = (a, b, show = count) => (a === b ? show(a) : [show(a), " → ", h("b", null, show(b))]);
  const changes = r.changes ?? [];
  return [h("p", null, badge(text, `status ${kind}`), " ", meaning), r.reason && h("p", { class: "note" }, r.reason),
    r.outcome !== "skipped" && properties(["Steps", pair(r.before.steps, r.after.steps)], ["Faults", pair(r.before.faults, r.after.faults)], ["Denied calls", pair(r.before.denials, r.after.denials)], ["Fuel", pair(r.before.fuel, r.after.fuel, short)]),
    h("ul", { class: "plain" }, partialList(changes, maxChanges, (c) => h("li", null, textDiff(`${c.step > 0 ? `Step ${c.step}: ` : ""}${kinds[c.kind] ?? c.kind}`, c.before ?? "", c.after ?? "")))),
    r.omitted > 0 && h("p", { class: "soft small" }, `${plural(r.omitted, "more change")} not shown.`),
    r.hooks?.length > 0 && h("details", null, h("summary", null, "Hooks that differ"), table("Hooks", ["#Step", "Module", "Hook", "#Calls", "#Faults", "#Fuel"], r.hooks.map((x) => h("tr", null, h("td", { class: "number" }, x.step), h("td", null, x.entry), h("td", null, x.hook),
      h("td", { class: "number" }, pair(x.before.calls, x.after.calls)), h("td", { class: "number" }, pair(x.before.faults ?? 0, x.after.faults ?? 0)), h("td", { class: "number" }, pair(x.before.fuel, x.after.fuel, short))))))];
}
