// Edits of YAML text that preserve all other keys and their comments. The server parses YAML; this
// file only writes it.

const reserved = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

// emit returns a value as lines of YAML in block style.
export function emit(value, indent = "") {
  if (Array.isArray(value) && value.length > 0) {
    return value.flatMap((v) => {
      const [first, ...rest] = emit(v, `${indent}  `);
      return [`${indent}- ${first.trimStart()}`, ...rest];
    });
  }
  if (value !== null && typeof value === "object" && Object.keys(value).length > 0) {
    return Object.entries(value).flatMap(([k, v]) => pair(k, v, indent));
  }
  return [indent + scalar(value)];
}

// pair returns a key with its value as lines.
function pair(key, value, indent) {
  const name = `${indent}${string(key)}:`;
  if (typeof value === "string" && isBlock(value)) return [`${name} ${value.endsWith("\n") ? "|" : "|-"}`, ...value.replace(/\n$/, "").split("\n").map((l) => (l === "" ? "" : `${indent}  ${l}`))];
  if (value !== null && typeof value === "object" && Object.keys(value).length > 0) return [name, ...emit(value, `${indent}  `)];
  return [`${name} ${scalar(value)}`];
}

// isBlock reports whether a text can be written line by line.
const isBlock = (text) => /\n./.test(text) && !/^[ \t\n]|[^\n\t\P{C}]|\n\n$/u.test(text);

function scalar(value) {
  if (typeof value === "string") return string(value);
  return JSON.stringify(value) ?? "null";
}

const string = (text) => (/^[A-Za-z_/][\w ./@+-]*$/.test(text) && !text.endsWith(" ") && !reserved.test(text) ? text : JSON.stringify(text));

// blocks returns where each key of the outermost mapping begins and ends, in lines. Comments before a
// key belong to it; text that is not in block style has no blocks.
function blocks(lines) {
  const found = [];
  lines.forEach((line, i) => {
    const m = /^(?:"([\w.-]+)"|'([\w.-]+)'|([A-Za-z_][\w.-]*))[ \t]*:(?:[ \t]|$)/.exec(line);
    if (m) found.push({ key: m[1] ?? m[2] ?? m[3], from: i, to: lines.length });
  });
  found.forEach((b, i) => {
    let end = found[i + 1]?.from ?? lines.length;
    while (end > b.from + 1 && /^(#.*|\s*)$/.test(lines[end - 1])) end--;
    b.to = end;
  });
  return found;
}

// setKey returns the text with another value of an outermost key; undefined removes the key.
export function setKey(text, key, value) {
  const lines = text === "" ? [] : text.replace(/\n$/, "").split("\n");
  const made = value === undefined ? [] : pair(key, value, "");
  const at = blocks(lines).find((b) => b.key === key);
  if (at) lines.splice(at.from, at.to - at.from, ...made);
  else lines.push(...made);
  return lines.length > 0 ? `${lines.join("\n")}\n` : "";
}

// rewrite returns a whole file, without the comments that it had.
export const rewrite = (value) => (Object.keys(value ?? {}).length > 0 ? `${emit(value).join("\n")}\n` : "");
