// Toasts: short messages about completed actions.
import { h, icon } from "./dom.js";

const shownFor = 4000; // milliseconds

// toast shows a text for some seconds; screen readers announce it.
export function toast(text) {
  const t = h("div", { class: "toast" }, icon("check"), text);
  document.getElementById("toasts").append(t);
  setTimeout(() => t.remove(), shownFor);
}
