// The console's pages. To add a page:
//
//  1. Write pages/NAME.js. It exports a function that makes the page:
//     export async function name({ id, query, signal, again }) { …; return h("section", null, …); }
//     id is the rest of the address after #/NAME/, query its URLSearchParams (filters belong there),
//     signal ends when the user leaves the page (pass it to get), and again() draws the page again.
//  2. Its first element is an h1 with tabindex -1, which receives the focus. An element with the
//     class crumbs moves to the bar above the page. Errors that it throws are shown, and retried if
//     they are temporary.
//  3. Make elements with h (dom.js) and parts.js only; never set styles, but add classes to css/.
//     Everything that comes from the server is hostile text: h makes it harmless.
//  4. Add a line below: list is the page without an id, one the page with one. A line with a group is
//     in the navigation; key is its shortcut after g; operator pages need the operator's key.
//  5. Add it to testdata/console.mjs: visit it as a person would, and call shot(name, name), which
//     checks it with axe in both visits. Add it to the table in docs/console.md.
import { runs, start } from "./pages/runs.js";
import { run } from "./pages/run.js";
import { threads } from "./pages/threads.js";
import { thread } from "./pages/thread.js";
import { agents } from "./pages/agents.js";
import { agent } from "./pages/agent.js";
import { edit } from "./pages/edit.js";
import { modules } from "./pages/modules.js";
import { module } from "./pages/module.js";
import { replays } from "./pages/replays.js";
import { replay } from "./pages/replay.js";
import { tryPage } from "./pages/try.js";
import { rollouts } from "./pages/rollouts.js";
import { rollout } from "./pages/rollout.js";
import { canary } from "./pages/canary.js";
import { compare } from "./pages/compare.js";
import { approvals } from "./pages/approvals.js";
import { usage } from "./pages/usage.js";
import { audit } from "./pages/audit.js";
import { keys } from "./pages/keys.js";
import { secrets } from "./pages/secrets.js";
import { members } from "./pages/members.js";
import { tenants, tenant } from "./pages/tenants.js";
import { blocks } from "./pages/blocks.js";

// firstPage is the page after signing in.
export const firstPage = "runs";

export const routes = {
  runs: { list: runs, one: run, group: "Observe", text: "Runs", key: "r" },
  threads: { list: threads, one: thread, group: "Observe", text: "Threads", key: "h" },
  approvals: { list: approvals, group: "Observe", text: "Approvals", key: "i", icon: "inbox" },
  compare: { list: compare, under: "runs" },
  start: { list: start, under: "runs" },
  usage: { list: usage, group: "Observe", text: "Usage", key: "u" },
  agents: { list: agents, one: agent, group: "Build", text: "Agents", key: "a" },
  edit: { list: edit, one: edit, under: "agents" },
  modules: { list: modules, one: module, group: "Build", text: "Modules", key: "m" },
  replays: { list: replays, one: replay, group: "Release", text: "Replay before rollout", key: "y", icon: "replay" },
  try: { list: tryPage, under: "replays" },
  rollouts: { list: rollouts, one: rollout, group: "Release", text: "Rollouts", key: "o" },
  canary: { list: canary, under: "rollouts" },
  keys: { list: keys, group: "Manage", text: "Keys", key: "k" },
  secrets: { list: secrets, group: "Manage", text: "Secrets", key: "e" },
  members: { list: members, group: "Manage", text: "Members", key: "p" },
  audit: { list: audit, group: "Manage", text: "Audit log", key: "l" },
  tenants: { list: tenants, one: tenant, group: "Operate", text: "Tenants", key: "t", operator: true },
  blocks: { list: blocks, group: "Operate", text: "Blocks", key: "b", operator: true },
};
