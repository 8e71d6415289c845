// The list of the replays of all agents.
import { h, icon } from "../dom.js";
import { emptyState, table, relativeTime } from "../parts.js";
import { all } from "../api.js";
import { moduleNames } from "../names.js";
import { candidateText, outcomes, parts, replayStatus } from "../release.js";

export async function replays({ signal }) {
  const [list, names] = await Promise.all([all("/v1/replays", "replays", signal), moduleNames(signal)]);
  const begin = () => h("a", { class: "button main", href: "#/try" }, icon("replay"), "Try a version");
  return h("section", null, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Replay before rollout"), list.length > 0 && begin()),
    h("p", { class: "lead" }, "Runs that have ended are run again with another version or module, before it receives traffic. Models and tools give the answers that were recorded, and nothing outside is called."),
    table("Replays", ["Candidate", "Status", "Result", "#Runs", "Started", "By"], list.map((r) => h("tr", null,
      h("td", null, h("a", { href: `#/replays/${r.id}` }, `${r.agent}, ${candidateText(r, names)}`)), h("td", null, replayStatus(r)),
      h("td", { class: "wide" }, r.done > 0 ? [parts(Object.keys(outcomes).map((o) => [r[o], outcomes[o][2] || "soft"])), h("span", { class: "small soft" }, summary(r))] : h("span", { class: "soft" }, "–")),
      h("td", { class: "number nowrap" }, r.done < r.total ? `${r.done} of ${r.total}` : r.total), h("td", { class: "soft nowrap" }, relativeTime(r.created)), h("td", { class: "soft" }, r.by))),
    emptyState("replay", "No replays yet", "Try a new version on runs that your users had, and see what would change, before anyone is affected.", begin(), "agent-runner replays start AGENT --version N")));
}

function summary(r) {
  const tried = r.done - r.skipped;
  const changed = r.different + r.diverged + r.failed;
  if (tried === 0) return "no run could be replayed";
  return `${changed === 0 ? "no run changes" : `${changed} of ${tried} change`}${r.failed > 0 ? `, ${r.failed} fail` : ""}`;
}
