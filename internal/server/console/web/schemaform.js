// Forms of JSON Schemas: each property is a control, with its description. Values without a control
// are edited as JSON.
import { h, fill, icon } from "./dom.js";
import { field } from "./parts.js";

const maxProperties = 100;
const maxDepth = 4;
const maxChoices = 200;
const plainTypes = new Set(["string", "number", "integer", "boolean"]);

// fitsObject reports whether all properties of an object have a control, and are within the budget.
function fitsObject(schema, budget, depth) {
  const list = Object.entries(schema.properties ?? {});
  if (list.length === 0 || depth > maxDepth) return false;
  return list.every(([name, s]) => {
    if ((budget.left -= 1) < 0 || name === "__proto__" || s === null || typeof s !== "object") return false;
    if (["$ref", "allOf", "anyOf", "oneOf", "not", "if"].some((k) => k in s)) return false;
    if (s.enum) return Array.isArray(s.enum) && s.enum.length <= maxChoices && s.enum.every((v) => typeof v === "string");
    if (s.type === "array") return s.items?.type === "string" && (s.items.enum === undefined || (Array.isArray(s.items.enum) && s.items.enum.length <= maxChoices));
    return s.type === "object" ? fitsObject(s, budget, depth + 1) : plainTypes.has(s.type);
  });
}

const many = new Set(["instruction", "description"]); // texts of several lines

// A Form shows a value and reports each change of it: onChange(key, value of that outermost key).
export class Form {
  #schema;
  #widgets;
  #main;
  #onChange;
  #open = new Set(); // the parts that the user has opened, by path

  // widgets makes other controls for paths such as "middlewares[].module": (value, set, item, label,
  // hint, current) => element. current returns the item at the time of the call. main lists, by path,
  // the properties that are shown at once; others are shown on request or if they have a value.
  constructor(schema, onChange, { widgets = {}, main = {} } = {}) {
    this.#schema = schema;
    this.#main = main;
    this.#onChange = onChange;
    this.#widgets = widgets;
    this.element = h("div", { class: "form" });
  }

  // fits reports whether a form can show a schema: an object with a limited number of properties. The
  // properties must be texts, numbers, choices, lists of texts or such objects.
  static fits(schema) {
    const budget = { left: maxProperties };
    return schema?.type === "object" && fitsObject(schema, budget, 0);
  }

  // show shows the properties with the given names.
  show(value, names) {
    this.value = structuredClone(value ?? {});
    fill(this.element, names.map((name) => this.#property(this.#schema, name, [], "")));
  }

  #get(path) {
    return path.reduce((v, k) => v?.[k], this.value);
  }

  // #set changes a value, and removes objects and lists that become empty.
  #set(path, value) {
    const last = path.at(-1);
    const rest = path.slice(0, -1);
    const nothing = (v) => v === undefined || (v !== null && typeof v === "object" && Object.keys(v).length === 0);
    if (rest.length === 0) {
      if (nothing(value)) delete this.value[last];
      else this.value[last] = value;
      this.#onChange(last, this.value[last]);
      return;
    }
    const holder = structuredClone(this.#get(rest) ?? (typeof last === "number" ? [] : {}));
    if (nothing(value) && typeof last !== "number") delete holder[last];
    else holder[last] = value ?? {};
    this.#set(rest, holder);
  }

  #property(schema, name, path, pattern) {
    const s = schema.properties[name];
    const at = [...path, name];
    const p = pattern ? `${pattern}.${name}` : name;
    const label = name.replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase());
    const widget = this.#widgets[p];
    if (widget) return widget(this.#get(at), (v) => this.#set(at, v), this.#get(path), label, s.description, () => this.#get(path));
    const types = [s.type].flat();
    if (s.properties) return this.#group(label, s, at, p);
    if (types.includes("array") && s.items?.properties) return this.#list(label, s, at, p);
    if (types.includes("array") && s.items?.enum) return this.#checks(label, s, at);
    return this.#simple(schema.required?.includes(name) ? `${label} (required)` : label, name, s, types, at);
  }

  // #part makes a part of the form that the user can open and close.
  #part(label, hint, key, content, open) {
    const d = h("details", { class: "part", open: open || this.#open.has(key), ontoggle: () => (d.open ? this.#open.add(key) : this.#open.delete(key)) },
      h("summary", null, label), hint && h("p", { class: "hint" }, hint), content);
    return d;
  }

  #group(label, s, at, p) {
    return this.#part(label, s.description, p, this.#properties(s, at, p), this.#get(at) !== undefined);
  }

  #properties(s, at, p) {
    const names = Object.keys(s.properties).filter((n) => this.#widgets[`${p}.${n}`] !== null);
    const main = this.#main[p] ?? names;
    const first = names.filter((n) => main.includes(n) || this.#get([...at, n]) !== undefined).sort((a, b) => main.indexOf(a) - main.indexOf(b));
    const rest = names.filter((n) => !first.includes(n));
    const show = (list) => h("div", { class: "properties" }, list.map((n) => this.#property(s, n, at, p)));
    return [show(first), rest.length > 0 && this.#part("More", "", `${at.join(".")} more`, show(rest), false)];
  }

  #list(label, s, at, p) {
    const place = h("div", { class: "stack" });
    const change = (list) => {
      this.#set(at, list);
      draw();
    };
    const draw = () => {
      const list = this.#get(at) ?? [];
      const move = (i, to) => change(list.with(i, list[to]).with(to, list[i]));
      fill(place, list.map((item, i) => h("fieldset", { class: "card item" }, h("legend", { class: "unseen" }, `${label} ${i + 1}`),
        h("div", { class: "head" }, h("b", { class: "grow" }, `${i + 1}. ${item?.name ?? item?.module ?? ""}`),
          i > 0 && h("button", { type: "button", class: "quiet", "aria-label": `Move ${i + 1} up`, onclick: () => move(i, i - 1) }, "↑"),
          i < list.length - 1 && h("button", { type: "button", class: "quiet", "aria-label": `Move ${i + 1} down`, onclick: () => move(i, i + 1) }, "↓"),
          h("button", { type: "button", class: "quiet", "aria-label": `Remove ${i + 1}`, onclick: () => change(list.toSpliced(i, 1)) }, icon("close"))),
        this.#properties(s.items, [...at, i], `${p}[]`))),
      h("div", null, h("button", { type: "button", onclick: () => change([...list, {}]) }, icon("plus"), `Add to ${label.toLowerCase()}`)));
    };
    draw();
    return this.#part(label, s.description, p, place, this.#get(at)?.length > 0);
  }

  #checks(label, s, at) {
    const chosen = this.#get(at);
    return h("fieldset", null, h("legend", null, label), h("div", { class: "checks" }, s.items.enum.map((name) => {
      const box = h("input", { type: "checkbox", checked: chosen?.includes(name), onchange: () => {
        const now = new Set(this.#get(at) ?? []);
        if (box.checked) now.add(name);
        else now.delete(name);
        this.#set(at, [...now]);
      } });
      return h("label", { class: "check" }, box, name);
    })), s.description && h("p", { class: "hint" }, s.description));
  }

  #simple(label, name, s, types, at) {
    const value = this.#get(at);
    const control = s.enum ? h("select", null, h("option", { value: "" }, "default"), s.enum.map((v) => h("option", { value: v, selected: v === value }, v)))
      : types.includes("boolean") ? h("select", null, [["", "default"], ["true", "yes"], ["false", "no"]].map(([v, text]) => h("option", { value: v, selected: String(value) === v }, text)))
        : many.has(name) ? h("textarea", { rows: "4" })
          : types[0] === "integer" || types[0] === "number" || (types.includes("integer") && !types.includes("string")) ? h("input", { type: "number", step: types.includes("integer") ? "1" : "any", min: s.minimum, max: s.maximum })
            : types.includes("string") ? h("input", { type: "text", minlength: s.minLength, maxlength: s.maxLength, spellcheck: "false", autocapitalize: "none" })
              : types.includes("array") && [s.items?.type].flat().includes("string") ? h("input", { type: "text", spellcheck: "false", autocapitalize: "none", placeholder: "one, another" })
                : h("textarea", { class: "code", rows: "3", spellcheck: "false", placeholder: "JSON" });
    const isList = types.includes("array") && [s.items?.type].flat().includes("string");
    const isJSON = control.className === "code";
    if (control.tagName !== "SELECT") control.value = value === undefined || value === null ? "" : isList ? value.join(", ") : isJSON ? JSON.stringify(value, null, 2) : String(value);
    const wrong = h("span", { class: "hint bad", role: "status" });
    control.addEventListener("input", () => {
      control.ariaInvalid = control.validity.valid ? null : "true";
      fill(wrong, control.validationMessage);
    });
    control.addEventListener("change", () => {
      const text = control.value;
      control.ariaInvalid = control.validity.valid ? null : "true";
      let now = text;
      if (text === "") now = undefined;
      else if (types.includes("boolean")) now = text === "true";
      else if (control.type === "number") now = Number(text);
      else if (isList) now = text.split(",").map((x) => x.trim()).filter(Boolean);
      else if (isJSON) {
        try {
          now = JSON.parse(text);
        } catch {
          control.ariaInvalid = "true";
          return;
        }
      }
      this.#set(at, now);
    });
    const shown = field(label, control, s.description);
    shown.append(wrong);
    return shown;
  }
}
