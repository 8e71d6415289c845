// The frame of the pages: the navigation at the side, the bar above the page, and shortcuts.
import { h, fill, icon } from "./dom.js";
import { key, keyName, isOperator, myTenants, chooseTenant } from "./api.js";
import { routes, firstPage } from "./routes.js";
import { openPalette } from "./palette.js";
import { openSheet, closeSheets } from "./dialog.js";
import { toggleTheme } from "./theme.js";

const side = document.getElementById("side");
const bar = document.getElementById("bar");
const veil = h("div", { class: "veil", hidden: true, onclick: () => setOpen(false) });
document.body.append(veil);

// visible returns the pages of the navigation, as [name, route].
export const visible = () => Object.entries(routes).filter(([, r]) => r.group && (!r.operator || isOperator()));

const brand = () => h("a", { class: "brand", href: `#/${firstPage}` }, h("span", { class: "mark", "aria-hidden": "true" }), "agent-runner");

// frame draws the navigation and the bar for a page, or removes them if nobody is signed in.
export function frame(page, signOut) {
  document.body.classList.toggle("framed", Boolean(key()));
  setOpen(false);
  closeSheets();
  if (!key()) {
    fill(side);
    fill(bar);
    return;
  }
  const now = routes[page]?.under ?? page;
  const groups = Map.groupBy(visible(), ([, r]) => r.group);
  fill(side, brand(),
    h("nav", { "aria-label": "Pages" }, [...groups].map(([group, list]) => [h("h2", null, group),
      list.map(([name, r]) => h("a", { href: `#/${name}`, "aria-current": name === now ? "page" : null }, icon(r.icon ?? name), r.text))])),
    h("div", { class: "who" },
      h("span", null, tenantChoice(), h("small", { title: "The key or the person that is signed in" }, keyName())),
      square("theme", "Light or dark", toggleTheme), square("out", "Sign out", signOut)));
  fill(bar,
    h("button", { type: "button", class: "quiet square menu", "aria-label": "Menu", "aria-expanded": "false", onclick: () => setOpen(side.dataset.open === undefined) }, icon("menu")),
    h("div", { class: "crumbs" }),
    h("button", { type: "button", class: "jump", onclick: () => palette(signOut) }, icon("search"), h("span", null, "Search or jump to…"), h("kbd", null, "Ctrl K")));
}

// tenantChoice shows the tenant whose data the pages show. A person with several tenants can choose
// another one.
function tenantChoice() {
  const { now, list } = myTenants();
  const name = (t) => t || "Operator";
  if (list.length < 2) return h("b", null, isOperator() ? "Operator" : now || "Tenant");
  const select = h("select", { "aria-label": "Tenant", title: "Choose a tenant", onchange: () => switchTo(select.value) }, list.map((t) => h("option", { value: t.tenant, selected: t.tenant === now }, `${name(t.tenant)}${t.role ? ` (${t.role})` : ""}`)));
  return select;
}

// otherTenants returns the names of the tenants that the person can switch to.
const otherTenants = () => myTenants().list.map((t) => t.tenant).filter((t) => t !== myTenants().now);

async function switchTo(tenant) {
  await chooseTenant(tenant);
  location.hash = `#/${firstPage}`;
  location.reload(); // nothing of the other tenant stays
}

const square = (name, label, onclick) => h("button", { type: "button", class: "quiet square", title: label, "aria-label": label, onclick }, icon(name));

// setCrumbs shows the breadcrumbs of the page in the bar.
export function setCrumbs(crumbs) {
  const place = bar.querySelector(".crumbs");
  if (crumbs && place) place.replaceWith(crumbs);
  else if (place) fill(place);
}

// setOpen opens and closes the navigation of narrow windows.
function setOpen(open) {
  if (open) side.dataset.open = "";
  else delete side.dataset.open;
  veil.hidden = !open;
  const menu = bar.querySelector(".menu");
  if (menu) menu.ariaExpanded = String(open);
  if (open) side.querySelector("[aria-current], a")?.focus();
}

function palette(signOut) {
  openPalette([
    ...visible().map(([name, r]) => ({ text: r.text, kind: "page", icon: r.icon ?? name, to: `#/${name}` })),
    ...otherTenants().map((t) => ({ text: `Switch to ${t || "Operator"}`, kind: "tenant", icon: "tenants", act: () => switchTo(t) })),
    { text: "Start a run", kind: "action", icon: "plus", to: "#/start" },
    { text: "Try a version on stored runs", kind: "action", icon: "replay", to: "#/try" },
    { text: "Start a canary", kind: "action", icon: "rollouts", to: "#/canary" },
    { text: "Switch between light and dark", kind: "action", icon: "theme", act: toggleTheme },
    { text: "Keyboard shortcuts", kind: "action", icon: "keys", act: showShortcuts },
    { text: "Sign out", kind: "action", icon: "out", act: signOut },
  ]);
}

function showShortcuts() {
  const pairs = [["Search or jump to", "Ctrl K"], ["Filter this list", "/"], ["Start a run", "s"], ["Shortcuts", "?"],
    ...visible().filter(([, r]) => r.key).map(([, r]) => [r.text, `g ${r.key}`])];
  openSheet("Keyboard shortcuts", () => h("dl", { class: "keys" }, pairs.map(([what, keys]) => h("div", null, h("dt", null, what), h("dd", null, keys.split(" ").map((k) => [h("kbd", null, k), " "]))))));
}

// shortcuts handles the keys that work on each page.
export function shortcuts(signOut) {
  let went = 0; // when g was pressed, in milliseconds
  document.addEventListener("keydown", (e) => {
    if (!key()) return;
    if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
      e.preventDefault();
      palette(signOut);
      return;
    }
    if (e.key === "Escape" && side.dataset.open !== undefined) {
      setOpen(false);
      bar.querySelector(".menu").focus();
      return;
    }
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, textarea, select, dialog, [contenteditable]")) return;
    const going = e.timeStamp - went < 1500;
    went = 0;
    const to = going && visible().find(([, r]) => r.key === e.key)?.[0];
    if (to) location.hash = `#/${to}`;
    else if (e.key === "g") went = e.timeStamp;
    else if (e.key === "s") location.hash = "#/start";
    else if (e.key === "?") showShortcuts();
    else if (e.key === "/") {
      const filter = document.querySelector("main [role=search] :is(input, select)");
      if (filter) e.preventDefault();
      filter?.focus();
    }
  });
}
