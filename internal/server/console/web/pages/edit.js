// The editor of an agent: a form and agent.yaml side by side, checked by the server while typing.
import { h, fill } from "../dom.js";
import { field, asyncAction, plural } from "../parts.js";
import { get, all, call, pause, isTemporary } from "../api.js";
import { Form } from "../schemaform.js";
import { setKey, rewrite } from "../yaml.js";
import { draft, deleteDrafts } from "../drafts.js";
import { DryRun } from "../dryrun.js";
import { toast } from "../toast.js";

const typingPause = 400; // milliseconds without a key until the text is checked
const sections = ["model", "instruction", "middlewares", "tools", "limits", "secrets", "return_directly", "requests", "stream"];
// The properties of the form that are shown at once.
const main = { model: ["name", "provider"], middlewares: [], "middlewares[]": ["module", "grants", "config"], limits: ["max_steps", "timeout"], tools: ["builtin"] };
const template = "model:\n  name: echo # the offline model\ninstruction: |\n  You are a helpful assistant.\n";

export async function edit({ id, query, signal }) {
  const path = `/v1/agents/${encodeURIComponent(id)}`;
  const version = query.get("version");
  const [schema, modules, a] = await Promise.all([
    get(new URL("../agent.schema.json", import.meta.url).pathname, signal), all("/v1/modules", "modules", signal).catch(() => []),
    id ? get(`${path}${version ? `?version=${encodeURIComponent(version)}` : ""}`, signal) : undefined]);
  return new Editor(id, a, schema, modules, signal).element;
}

class Editor {
  #turn = 0;
  configs = []; // functions that draw the forms of modules' configurations

  constructor(id, a, schema, modules, signal) {
    this.id = id;
    this.signal = signal;
    this.modules = modules;
    this.name = h("input", { type: "text", required: true, maxlength: "63", pattern: "[a-z0-9][a-z0-9._\\-]*", placeholder: "clerk", spellcheck: "false", autocapitalize: "none", title: "Lowercase letters, digits, dots, dashes and underscores", oninput: () => this.changed() });
    this.name.value = id;
    this.text = h("textarea", { class: "code yaml-text", spellcheck: "false", autocapitalize: "none", "aria-label": "agent.yaml", rows: "28", oninput: () => this.changed() });
    this.text.value = a?.yaml ?? template;
    draft(this.text, `edit/${id}`);
    this.state = h("div", { role: "status", class: "state" });
    this.place = h("div");
    this.save = h("button", { type: "submit", class: "main" }, id ? "Save as new version" : "Create");
    this.form = new Form(schema, (key, value) => this.formChanged(key, value), { widgets: this.widgets(), main });
    const names = h("datalist", { id: "modules" }, [...new Set(modules.flatMap((m) => m.names.map((n) => n.name)))].map((n) => h("option", { value: n })));
    this.element = h("form", { method: "post", onsubmit: asyncAction(this.save, this.place, () => this.store()) },
      h("p", { class: "crumbs" }, h("a", { href: "#/agents" }, "Agents"), "/", id ? [h("a", { href: `#/agents/${id}` }, id), "/", h("span", null, "Edit")] : h("span", null, "New")),
      h("div", { class: "head" }, h("h1", { tabindex: "-1" }, id ? `Edit ${id}` : "New agent"), id && h("a", { class: "button quiet", href: `#/agents/${id}` }, "Cancel"), this.save),
      this.place, names,
      h("div", { class: "editor" },
        h("section", { "aria-label": "Form" }, !id && field("Name", this.name), this.form.element),
        h("section", { class: "text", "aria-label": "Text" }, h("div", { class: "head" }, h("h2", { class: "grow" }, "agent.yaml"), this.state), this.text)),
      new DryRun(id, signal, () => ({ name: this.name.value.trim(), yaml: this.text.value })).element);
    this.showForm({});
    this.check();
  }

  // changed checks the text once nothing has been typed for a moment.
  async changed() {
    const turn = ++this.#turn;
    await pause(typingPause, this.signal);
    if (turn === this.#turn && !this.signal.aborted) await this.check();
  }

  // check lets the server check the text, and shows the parsed file in the form. wanted is the file
  // that the form has made. If the text parses to another file, check rewrites the text.
  async check(wanted) {
    const turn = ++this.#turn;
    fill(this.state, h("span", { class: "soft small" }, "Checking…"));
    let result;
    try {
      result = await call("POST", `/v1/agents/${encodeURIComponent(this.name.value.trim() || "new")}/check`, { body: this.text.value, headers: { "Content-Type": "application/yaml" }, signal: this.signal });
    } catch (e) {
      if (this.signal.aborted || turn !== this.#turn) return;
      fill(this.state, h("span", { class: "wrong" }, e.message));
      if (isTemporary(e)) await this.changed();
      return;
    }
    if (turn !== this.#turn) return; // something was typed meanwhile
    if (wanted && JSON.stringify(result.file ?? {}) !== JSON.stringify(wanted)) {
      this.text.value = rewrite(wanted);
      await this.check();
      return;
    }
    this.show(result, wanted === undefined);
  }

  show(result, withForm) {
    this.checked = result;
    if (withForm && result.file !== undefined && !this.form.element.contains(document.activeElement)) this.showForm(result.file ?? {});
    this.text.ariaInvalid = result.valid ? null : "true";
    fill(this.state, result.valid
      ? h("span", { class: "badge status good" }, `Valid · ${plural(result.modules.length, "module")}`)
      : result.errors.map((e) => this.error(e)),
    result.warnings.map((w) => h("p", { class: "note small warn-text" }, w)));
  }

  // error shows an error, with a button that selects its line.
  error(e) {
    const [, line] = /line (\d+)/.exec(e.location ?? "") ?? [];
    return h("p", { class: "wrong" }, line && h("button", { type: "button", class: "quiet", onclick: () => this.select(Number(line)) }, `Line ${line}`), line && " ", e.message);
  }

  select(line) {
    const lines = this.text.value.split("\n");
    const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.text.focus();
    this.text.setSelectionRange(from, from + (lines[line - 1]?.length ?? 0));
  }

  formChanged(key, value) {
    this.text.value = setKey(this.text.value, key, value);
    this.text.dispatchEvent(new Event("input")); // saves the draft
    this.check(structuredClone(this.form.value));
  }

  // widgets returns the controls that replace those that the form derives from the schema. null hides
  // a property that servers reject.
  widgets() {
    const module = (value, set, item, label, hint) => {
      const input = h("input", { type: "text", list: "modules", required: true, spellcheck: "false", autocapitalize: "none", onchange: () => {
        set(input.value.trim() || undefined);
        for (const draw of this.configs) draw(); // another module has another configuration
      } });
      input.value = value ?? "";
      const m = this.moduleOf(input.value);
      return field(label, input, m?.about.description || "An uploaded module: its name, name@version, or digest.");
    };
    const grants = (value, set, item, label) => {
      const input = h("input", { type: "text", spellcheck: "false", autocapitalize: "none", placeholder: "none", onchange: () => set(input.value.split(",").map((x) => x.trim()).filter(Boolean)) });
      input.value = (value ?? []).join(", ");
      const m = this.moduleOf(item?.module);
      return field(label, input, m?.about.grants.length > 0 ? `It can use: ${m.about.grants.join(", ")}.` : "Separated by commas, such as read:last, store, http:api.example.com.");
    };
    const config = (value, set, item, label, hint, current) => {
      const place = h("div", { class: "config-place" });
      let shown; // the schema of the form
      const draw = () => {
        const schema = this.moduleOf(current()?.module)?.about.config_schema;
        if (shown && shown === schema) return;
        shown = schema;
        fill(place, this.configForm(schema, current()?.config, set, label));
      };
      draw();
      this.configs.push(draw);
      return place;
    };
    return { "middlewares[].module": module, "middlewares[].grants": grants, "middlewares[].config": config, "tools.root": null };
  }

  showForm(value) {
    this.configs = [];
    this.form.show(value, sections);
  }

  // configForm makes a form for a module's configuration. Without a schema, it shows a hint where to
  // edit the configuration.
  configForm(schema, value, set, label) {
    if (!schema) return value === undefined ? null : h("p", { class: "hint" }, "Its configuration is in agent.yaml. The module does not describe it.");
    if (!Form.fits(schema)) return h("p", { class: "hint" }, "Edit its configuration in agent.yaml: the module's description of it has no form.");
    let now = value;
    const form = new Form(schema, (key, v) => {
      now = { ...now, [key]: v };
      if (v === undefined) delete now[key];
      set(now);
    });
    form.show(value, Object.keys(schema.properties));
    return h("fieldset", { class: "card config" }, h("legend", null, label), form.element);
  }

  // moduleOf returns the module that a text in the file names, or nothing if it is not known.
  moduleOf(text) {
    const digest = this.checked?.modules.find((e) => e.module === text)?.digest ?? text;
    return this.modules.find((m) => m.digest === digest) ?? this.modules.find((m) => m.names.some((n) => n.name === text || `${n.name}@${n.version}` === text));
  }

  async store() {
    const name = this.name.value.trim();
    const a = await call("PUT", `/v1/agents/${encodeURIComponent(name)}`, { body: this.text.value, headers: { "Content-Type": "application/yaml" } });
    deleteDrafts(`edit/${this.id}`);
    toast(`Version ${a.version} is saved.`);
    location.hash = `#/agents/${name}`;
  }
}
