// The console: shows the page that the address names. routes.js explains how to add a page.
import { h, fill, announce } from "./dom.js";
import { errorMessage } from "./parts.js";
import { isTemporary, retryReason, countdown, key, signOut, onKeyRejected } from "./api.js";
import { deleteDrafts } from "./drafts.js";
import { frame, setCrumbs, shortcuts } from "./shell.js";
import { signInPage } from "./signin.js";
import { routes, firstPage } from "./routes.js";
import { restoreTheme } from "./theme.js";

const main = document.getElementById("main");
let pageController = new AbortController();
let pageNumber = 0;
let failed = 0; // how often in a row a page failed to load

function leave() {
  deleteDrafts();
  signOut();
  show();
}

function askForKey(why) {
  showPage(signInPage(why, show));
  document.title = "Sign in · agent-runner";
  main.querySelector("input")?.focus();
}

// showPage replaces the content of the page.
function showPage(content) {
  fill(main, content);
  setCrumbs(content.querySelector?.(".crumbs"));
  main.ariaBusy = null;
}

const skeleton = () => h("div", { class: "skeleton" }, Array.from({ length: 6 }, () => h("i")), h("span", { class: "unseen" }, "Loading…"));

// address parses the address into the page's name, its id and its query.
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  let id = "";
  try {
    id = decodeURIComponent(rest.join("/"));
  } catch {
    // an address with an invalid encoding has no id
  }
  return { page: name || firstPage, id, query: new URLSearchParams(query ?? "") };
}

async function show() {
  pageController.abort();
  pageController = new AbortController();
  const { signal } = pageController;
  const turn = ++pageNumber;
  const { page, id, query } = address();
  const route = Object.hasOwn(routes, page) ? routes[page] : undefined;
  main.ariaBusy = "true"; // until the page matches the navigation
  frame(page, leave);
  if (!key()) return askForKey();
  const view = id ? route?.one : route?.list;
  const busy = setTimeout(() => fill(main, skeleton()), 150);
  let content;
  try {
    if (!view) throw new Error("Page not found.");
    content = await view({ id, query, signal, again: show });
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
  frame();
  askForKey("The server no longer accepts this key: it was revoked or has expired. Sign in with another key.");
});
restoreTheme();
shortcuts(leave);
window.addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault(); // the address selects the page
  main.focus();
});
show();
