// Small charts: bars or lines over time, with a cursor for mouse and keyboard, and the same numbers as
// a table.
import { h, s, fill } from "./dom.js";
import { table } from "./parts.js";

const [width, height] = [600, 150]; // of the drawing, which is stretched to its place

export const colors = 6; // how many series have a colour of their own

// chart shows series over time. times are the starts of the buckets. series are { name, values } with
// one value for each bucket, which may be null in lines. show formats a value as text. kind is
// "bars", which are stacked, or "lines".
export function chart({ title, times, series, show, kind = "bars", when, empty }) {
  const sums = times.map((_, i) => (kind === "bars" ? series.reduce((n, x) => n + x.values[i], 0) : Math.max(0, ...series.map((x) => x.values[i] ?? 0))));
  const top = ceiling(Math.max(0, ...sums));
  if (top === 0 || series.length === 0) return h("figure", { class: "chart card" }, h("figcaption", null, h("b", null, title)), h("p", { class: "soft none" }, empty));
  const at = (v) => height - (height * v) / top;
  const cursor = s("rect", { class: "cursor", x: 0, y: 0, width: width / times.length, height });
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    [0.25, 0.5, 0.75].map((part) => s("line", { class: "grid", x1: 0, x2: width, y1: height * part, y2: height * part })), cursor, (kind === "bars" ? bars : lines)(times, series, at));
  const readout = h("p", { class: "readout small", role: "status" });
  const plot = h("div", { class: "plot", tabindex: "0", role: "group", "aria-label": `${title}: arrow keys read the values` }, drawing,
    h("span", { class: "top small", "aria-hidden": "true" }, show(top)));
  let now = -1;
  const read = (i) => {
    now = i;
    cursor.style.display = i < 0 ? "" : "block";
    if (i < 0) return fill(readout, legend(series));
    cursor.style.transform = `translateX(${(i * width) / times.length}px)`;
    const parts = series.map((x, n) => [x, n]).filter(([x]) => x.values[i] > 0);
    fill(readout, h("b", null, when(times[i])), " ", parts.length === 0 ? "nothing" : parts.map(([x, n]) => [swatch(n), `${x.name} ${show(x.values[i])} `]));
  };
  plot.addEventListener("keydown", (e) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (e.key === "Escape") read(-1);
    if (!step) return;
    e.preventDefault();
    read(Math.min(times.length - 1, Math.max(0, now < 0 && step < 0 ? times.length - 1 : now + step)));
  });
  plot.addEventListener("pointermove", (e) => {
    const box = plot.getBoundingClientRect();
    read(Math.min(times.length - 1, Math.max(0, Math.floor(((e.clientX - box.left) / box.width) * times.length))));
  });
  plot.addEventListener("pointerleave", () => read(-1));
  plot.addEventListener("blur", () => read(-1));
  read(-1);
  const numbers = h("details", { ontoggle: () => numbers.open && numbers.children.length === 1 && numbers.append(...rows(title, times, series, show, when)) }, h("summary", { class: "small soft" }, "Table"));
  return h("figure", { class: "chart card" }, h("figcaption", null, h("b", null, title)), plot,
    h("div", { class: "axis small soft", "aria-hidden": "true" }, h("span", null, when(times[0])), h("span", null, when(times.at(-1)))), readout, numbers);
}

const swatch = (i) => h("span", { class: `swatch c${(i % colors) + 1}`, "aria-hidden": "true" });
const legend = (series) => series.map((x, i) => h("span", { class: "entry" }, swatch(i), x.name));

function bars(times, series, at) {
  const step = width / times.length;
  const heights = times.map(() => 0);
  return series.map((x, n) => s("g", { class: `c${(n % colors) + 1}` }, x.values.map((v, i) => {
    if (!(v > 0)) return null;
    const from = heights[i];
    heights[i] += v;
    return s("rect", { x: i * step + step * 0.12, width: step * 0.76, y: at(heights[i]), height: at(from) - at(heights[i]) });
  })));
}

// lines connects neighbouring buckets that have a value, and marks those without a neighbour.
function lines(times, series, at) {
  const step = width / times.length;
  return series.map((x, n) => {
    const parts = [];
    x.values.forEach((v, i) => {
      if (v === null) return;
      const point = `${(i + 0.5) * step},${at(v)}`;
      if (i > 0 && x.values[i - 1] !== null) parts.at(-1).push(point);
      else parts.push([point]);
    });
    return s("g", { class: `line c${(n % colors) + 1}` }, parts.map((p) => (p.length > 1 ? s("polyline", { points: p.join(" ") }) : s("line", { x1: p[0].split(",")[0] - step * 0.3, x2: Number(p[0].split(",")[0]) + step * 0.3, y1: p[0].split(",")[1], y2: p[0].split(",")[1] }))));
  });
}

function rows(title, times, series, show, when) {
  const used = times.map((t, i) => [t, i]).filter(([, i]) => series.some((x) => x.values[i] > 0));
  return [table(title, ["Time", ...series.map((x) => `#${x.name}`)], used.map(([t, i]) => h("tr", null, h("td", { class: "nowrap" }, when(t)), series.map((x) => h("td", { class: "number" }, x.values[i] === null ? "–" : show(x.values[i]))))), "Nothing.")].flat(Infinity).filter(Boolean);
}

// ceiling returns a round number that is at least n.
export function ceiling(n) {
  if (!(n > 0)) return 0;
  const unit = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 2.5, 5, 10].find((m) => m * unit >= n - unit * 1e-9) * unit;
}
