// The command palette: pages, actions, agents and modules by name.
import { h, fill, icon, relate } from "./dom.js";
import { all } from "./api.js";

const maxShown = 12;

// openPalette shows the palette with its fixed entries: { text, kind, icon, to or act }. Agents and
// modules are added as soon as they are loaded.
export function openPalette(fixed) {
  if (document.querySelector("dialog[open]")) return;
  let entries = fixed;
  let shown = [];
  let at = 0;
  const list = h("ul", { role: "listbox", id: "palette-list", "aria-label": "Results" });
  const input = h("input", { type: "text", role: "combobox", "aria-label": "Search or jump to", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list",
    placeholder: "A page, agent, module, or the id of a run or thread", autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
  const controller = new AbortController();
  const dialog = h("dialog", { class: "palette", "aria-label": "Search", onclose: () => {
    controller.abort();
    dialog.remove();
  }, onclick: (e) => e.target === dialog && dialog.close() }, input, list);
  const choose = (entry) => {
    if (!entry) return;
    dialog.close();
    if (entry.to) location.hash = entry.to;
    else entry.act();
  };
  const draw = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = entries.filter((e) => words.every((w) => e.text.toLowerCase().includes(w))).slice(0, maxShown);
    const id = input.value.trim();
    if (/^run_\w+$/.test(id)) shown.unshift({ text: id, kind: "run", icon: "runs", to: `#/runs/${id}` });
    if (/^thr_\w+$/.test(id)) shown.unshift({ text: id, kind: "thread", icon: "threads", to: `#/threads/${id}` });
    at = Math.max(0, Math.min(at, shown.length - 1));
    fill(list, shown.map((e, i) => h("li", { role: "option", id: `palette-${i}`, "aria-selected": String(i === at), onclick: () => choose(e) }, icon(e.icon), h("span", null, e.text), h("span", null, e.kind))),
      shown.length === 0 && h("li", { role: "option", "aria-disabled": "true" }, h("span", null, "Nothing has this name.")));
    relate(input, "aria-activedescendant", shown.length > 0 ? list.children[at] : undefined);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  input.addEventListener("input", () => {
    at = 0;
    draw();
  });
  input.addEventListener("keydown", (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step) {
      e.preventDefault();
      at = (at + step + shown.length) % Math.max(1, shown.length);
      draw();
    } else if (e.key === "Enter") {
      e.preventDefault();
      choose(shown[at]);
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  draw();
  const add = (more) => {
    entries = [...entries, ...more];
    draw();
  };
  all("/v1/agents", "agents", controller.signal).then((l) => add(l.map((a) => ({ text: a.name, kind: "agent", icon: "agents", to: `#/agents/${a.name}` })))).catch(() => {});
  all("/v1/modules", "modules", controller.signal).then((l) => add(l.map((m) => ({ text: m.names[0]?.name ?? m.about.name ?? m.digest, kind: "module", icon: "modules", to: `#/modules/${m.digest}` })))).catch(() => {});
}
