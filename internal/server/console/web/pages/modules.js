// The list of modules, and their upload.
import { h, fill, icon } from "../dom.js";
import { emptyState, table, relativeTime, badge, plural, field, asyncAction, digest } from "../parts.js";
import { bytes } from "../format.js";
import { all } from "../api.js";
import { deleteNames } from "../names.js";
import { toast } from "../toast.js";
import { upload as send, accept, kindOf } from "../upload.js";

const stages = { sending: "Sending…", receiving: "Sending…", received: "Received", waiting: "Waiting for a free processor…", compiling: "Verifying and compiling…", described: "Storing…" };

export async function modules({ signal }) {
  const list = await all("/v1/modules", "modules", signal);
  const form = uploadForm(signal);
  const panel = h("section", { class: "card", "aria-label": "Upload a module", hidden: list.length > 0 }, form);
  const open = () => {
    panel.hidden = false;
    panel.scrollIntoView({ block: "nearest" });
    form.querySelector("input[type=file]").focus();
  };
  const choose = h("button", { type: "button", class: "main", onclick: open }, icon("upload"), "Upload");
  const find = h("input", { type: "search", placeholder: "Name or hook", autocapitalize: "none", spellcheck: "false", "aria-label": "Find a module" });
  const place = h("div");
  const draw = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (m) => `${m.names.map((n) => n.name).join(" ")} ${m.about.name ?? ""} ${m.about.description ?? ""} ${m.about.hooks.join(" ")} ${m.digest}`.toLowerCase();
    fill(place, rows(list.filter((m) => words.every((w) => text(m).includes(w))), list.length > 0));
  };
  find.addEventListener("input", draw);
  draw();
  return h("section", null, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Modules"), choose),
    h("p", { class: "lead" }, "Middlewares that agents run with. A module can do only what an agent grants it."),
    panel,
    list.length > 0 && h("form", { class: "filters", role: "search", onsubmit: (e) => e.preventDefault() }, find), place);
}

function rows(list, filtered) {
  return table("Modules", ["Module", "What it does", "Hooks", "#Size", "Uploaded", "Digest"], list.map((m) => h("tr", null,
    h("td", { class: "nowrap" }, h("a", { href: `#/modules/${m.digest}` }, m.names[0]?.name ?? m.about.name ?? "without a name"), h("span", { class: "soft" }, ` ${m.names[0]?.version ?? m.about.version ?? ""}`), " ", m.blocked && badge("blocked", "bad")),
    h("td", { class: "wide soft" }, m.about.description),
    h("td", { class: "wide" }, m.about.hooks.map((x) => badge(x)), m.about.warnings.length > 0 && badge(plural(m.about.warnings.length, "warning"), "warn")),
    h("td", { class: "number nowrap" }, bytes(m.size_bytes)), h("td", { class: "soft nowrap" }, relativeTime(m.created)), h("td", null, digest(m.digest)))),
  filtered ? h("p", { class: "empty" }, "No module matches.") : emptyState("modules", "No modules yet", "A module is a middleware that agents run with: WebAssembly, or a script. Upload one above, or with:", "agent-runner modules push PATH"));
}

// uploadForm makes the form that uploads a file, chosen or dropped.
function uploadForm(signal) {
  let file;
  const chooser = h("input", { type: "file", accept, "aria-label": "File of the module" });
  const name = h("input", { type: "text", placeholder: "redact", maxlength: "63", pattern: "[a-z0-9][a-z0-9._\\-]*", autocapitalize: "none", spellcheck: "false", title: "Lowercase letters, digits, dots, dashes and underscores" });
  const version = h("input", { type: "text", placeholder: "as the module says", maxlength: "64", autocapitalize: "none", spellcheck: "false" });
  const place = h("div");
  const chosen = h("p", { class: "soft" }, "WebAssembly (.wasm), TypeScript or JavaScript (.ts, .js), or an Extism manifest (.json)");
  const button = h("button", { type: "submit", class: "main", disabled: true }, "Upload");
  const drop = h("div", { class: "drop" }, icon("upload"), h("b", null, "Drop a file here, or choose one"), chooser, chosen);
  const take = (f) => {
    if (!f) return;
    fill(place);
    if (!kindOf(f.name)) {
      fill(place, h("p", { class: "wrong", role: "alert" }, `${f.name} is not a module: its name ends in none of ${accept.replaceAll(",", ", ")}.`));
      return;
    }
    file = f;
    fill(chosen, `${f.name}, ${bytes(f.size)}`);
    button.disabled = false;
    if (!name.value) name.value = f.name.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 63);
  };
  chooser.addEventListener("change", () => take(chooser.files[0]));
  for (const [type, over] of [["dragenter", true], ["dragover", true], ["dragleave", false], ["drop", false]]) {
    drop.addEventListener(type, (e) => {
      e.preventDefault();
      drop.classList.toggle("over", over);
      if (type === "drop") take(e.dataTransfer.files[0]);
    });
  }
  const go = asyncAction(button, place, async () => {
    const bar = h("progress", { max: "1", value: "0", "aria-label": "Upload" });
    const stage = h("p", { class: "soft small", role: "status" });
    fill(place, bar, stage);
    const m = await send(file, { name: name.value.trim(), version: version.value.trim(), signal, onStage(text, part) {
      bar.value = part;
      if (text !== "sending" && text !== "receiving") bar.removeAttribute("value"); // the server works, for an unknown time
      const now = stages[text] ?? text;
      if (stage.textContent !== now) stage.textContent = now;
    } }).catch((e) => {
      fill(place);
      throw e;
    });
    deleteNames();
    toast("Uploaded.");
    location.hash = `#/modules/${m.digest}`;
  });
  return h("form", { class: "stack", method: "post", onsubmit: go }, drop, h("div", { class: "pair" }, field("Name", name, "Agents use this name."), field("Version", version)), place, h("div", null, button));
}
