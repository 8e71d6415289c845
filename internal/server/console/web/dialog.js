// Dialogs above the page.
import { h, icon } from "./dom.js";

// openSheet opens a dialog with a title. make receives a function that closes it and returns its
// content.
export function openSheet(title, make) {
  const close = () => sheet.close();
  const heading = h("h2", null, title);
  const sheet = h("dialog", { class: "sheet", "aria-label": title, onclose: () => sheet.remove() },
    h("header", null, heading, h("button", { type: "button", class: "quiet square", title: "Close", "aria-label": "Close", onclick: close }, icon("close"))), make(close));
  document.body.append(sheet);
  sheet.showModal();
  sheet.querySelector("input, select, textarea")?.focus();
}

// closeSheets closes all dialogs, for example before another page is shown.
export function closeSheets() {
  for (const d of document.querySelectorAll("dialog[open]")) d.close();
}
