// The console's frame: who is signed in, and which page is shown.
import { h, fill, field, asyncAction, announce, errorMessage } from "./dom.js";
import { isTemporary, retryReason, countdown, key, keyName, isOperator, signIn, signOut, onKeyRejected } from "./api.js";
import { deleteDrafts } from "./drafts.js";
import { runs, start } from "./runs.js";
import { run } from "./run.js";
import { agents, agent } from "./agents.js";
import { modules, module } from "./modules.js";
import { usage } from "./usage.js";
import { tenants, tenant, blocks } from "./operator.js";

const pages = { runs: [runs, run], start: [start], agents: [agents, agent], modules: [modules, module], usage: [usage], tenants: [tenants, tenant], blocks: [blocks] };
const top = document.getElementById("top");
const main = document.getElementById("main");
let pageController = new AbortController();

const links = () => [["runs", "Runs"], ["agents", "Agents"], ["modules", "Modules"], ["usage", "Usage"],
  ...(isOperator() ? [["tenants", "Tenants"], ["blocks", "Blocks"]] : [])];

function header(now) {
  const brand = h("a", { class: "brand", href: "#/runs" }, h("span", { class: "mark", "aria-hidden": "true" }), "agent-runner");
  if (!key()) return fill(top, brand);
  fill(top, brand,
    h("nav", { "aria-label": "Pages" }, links().map(([to, text]) => h("a", { href: `#/${to}`, "aria-current": (now === "start" ? "runs" : now) === to ? "page" : null }, text))),
    h("div", { class: "who" }, h("span", { title: isOperator() ? "an operator key" : "the key you are signed in with" }, isOperator() ? "operator" : keyName()),
      h("button", { type: "button", class: "quiet", onclick: () => { deleteDrafts(); signOut(); show(); } }, "Sign out")));
  top.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}

function signInPage(why) {
  const input = h("input", { type: "password", name: "key", autocomplete: "off", autocapitalize: "none", spellcheck: "false", required: true, placeholder: "ar_…" });
  const place = h("div");
  const button = h("button", { type: "submit", class: "main" }, "Sign in");
  if (why) fill(place, errorMessage({ message: why }));
  const go = asyncAction(button, place, async () => {
    try {
      await signIn(input.value.trim());
    } catch (e) {
      input.select();
      throw e;
    }
    await show();
  });
  showPage(h("form", { class: "signin card", onsubmit: go, method: "post" },
    h("h1", { tabindex: "-1" }, "Sign in"),
    h("p", { class: "soft" }, "Enter a key of this server. It is stored only in this tab, until you close it."),
    field("Key", input), place, button));
  document.title = "Sign in · agent-runner";
  input.focus();
}

// showPage replaces the content of the page.
function showPage(content) {
  fill(main, content);
  main.ariaBusy = null;
}

let pageNumber = 0;
let failed = 0; // how often in a row a page failed to load

async function show() {
  pageController.abort();
  pageController = new AbortController();
  const { signal } = pageController;
  const turn = ++pageNumber;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const page = Object.hasOwn(pages, name || "runs") ? name || "runs" : "";
  main.ariaBusy = "true"; // until the page matches the header
  header(page);
  if (!key()) return signInPage();
  const views = pages[page];
  let id;
  try {
    id = decodeURIComponent(rest.join("/"));
  } catch {
    id = "";
  }
  const view = views?.[id ? 1 : 0];
  const busy = setTimeout(() => fill(main, h("p", { class: "soft busy" }, "Loading…")), 150);
  let content;
  try {
    if (!view) throw new Error("Page not found.");
    content = await view({ id, query: new URLSearchParams(query ?? ""), signal, again: show });
    failed = 0;
  } catch (e) {
    if (signal.aborted || !key()) return;
    const retryNote = h("p", { class: "soft" });
    content = h("section", null, h("h1", { tabindex: "-1" }, "Something went wrong"), errorMessage(e), retryNote,
      h("p", null, h("button", { type: "button", onclick: show }, "Try again")));
    if (isTemporary(e)) reloadLater(e, retryNote, signal);
    else failed = 0;
  } finally {
    clearTimeout(busy);
  }
  if (turn !== pageNumber) return;
  showPage(content);
  const title = main.querySelector("h1");
  document.title = `${title?.dataset.title ?? title?.textContent ?? ""} · agent-runner`;
  title?.focus({ preventScroll: true });
  window.scrollTo(0, 0);
  announce(title?.textContent ?? "");
}

// reloadLater reloads a page after a delay, which grows with the number of failures.
async function reloadLater(e, place, signal) {
  const seconds = Math.max(e.retry ?? 0, Math.min(60, 2 ** failed++));
  await countdown(seconds, signal, (s) => fill(place, `${retryReason(e)}. Retrying in ${s} s.`));
  if (!signal.aborted) show();
}

onKeyRejected(() => {
  pageController.abort();
  pageNumber++;
  signOut();
  header();
  signInPage("The server no longer accepts this key: it was revoked or has expired. Sign in with another key.");
});
window.addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault(); // the address selects the page
  main.focus();
});
show();
