// Numbers, sizes, times and JSON as text.
const integer = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const count = (n) => integer.format(n ?? 0);
export const short = (n) => ((n ?? 0) < 10000 ? integer.format(n ?? 0) : compact.format(n));

export function bytes(n) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (n < 1024) return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
  return `${n.toFixed(1)} GiB`;
}

// duration shows a duration given in microseconds.
export function duration(us) {
  if (us < 0) return "…";
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms`;
  if (us < 6e7) return `${(us / 1e6).toFixed(1)} s`;
  return `${Math.floor(us / 6e7)} min ${Math.round((us % 6e7) / 1e6)} s`;
}

// textOf returns the text of a message's content.
export function textOf(content) {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content.map((p) => p?.text ?? `[${p?.type ?? "part"}]`).join("\n");
}

// indentJSON indents JSON, or returns other text as it is.
export function indentJSON(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text ?? "";
  }
}
