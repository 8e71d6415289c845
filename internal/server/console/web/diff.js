// Differences of texts: the longest common subsequence of their words, or of the lines of long
// texts.

const maxComparisons = 1e6; // comparisons; larger changes are shown whole
const long = 200000; // characters; longer texts are compared by lines
const maxPairs = 1000; // lines of a block that are compared by words
const maxPairLength = 4000; // characters of both lines
const minSimilar = 0.35; // the part of two lines that must be equal to compare them by words

// words splits a text. Its pieces joined are the text.
export const words = (text) => text.match(/\n|[^\S\n]+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

// linesOf splits a text into lines.
const linesOf = (text) => text.match(/[^\n]*\n|[^\n]+/g) ?? [];

// diff returns the parts that are in both texts ("same"), only in the old ("gone") and only in
// the new text ("new"), in order.
export function diff(before, after) {
  const byWords = before.length + after.length <= long ? compare(words(before), words(after)) : undefined;
  const out = (byWords ?? compare(linesOf(before), linesOf(after)))?.map(joined);
  return joinReplacements(out ?? [{ kind: "gone", text: before }, { kind: "new", text: after }].filter((p) => p.text !== ""));
}

const joined = ({ kind, items }) => ({ kind, text: items.join("") });

// blocks returns the difference of two texts by lines, in order. A block is { same: lines } or, for
// lines that were replaced, { gone: rows, added: rows }. A row is a list of parts as diff returns
// them, because a removed line and a similar added one are compared by words.
export function blocks(before, after) {
  const [a, b] = [before, after].map((text) => (text === "" ? [] : text.split("\n")));
  const parts = compare(a, b) ?? [{ kind: "gone", items: a }, { kind: "new", items: b }].filter((p) => p.items.length > 0);
  const out = [];
  const budget = { left: maxComparisons };
  for (let i = 0; i < parts.length; i++) {
    if (parts[i].kind === "same") {
      out.push({ same: parts[i].items });
      continue;
    }
    const gone = [];
    const added = [];
    for (; i < parts.length && parts[i].kind !== "same"; i++) for (const line of parts[i].items) (parts[i].kind === "gone" ? gone : added).push(line);
    i--;
    out.push(replaced(gone, added, budget));
  }
  return out;
}

// replaced compares removed lines with added ones until the budget of comparisons is used up.
function replaced(gone, added, budget) {
  const block = { gone: gone.map((text) => [{ kind: "gone", text }]), added: added.map((text) => [{ kind: "new", text }]) };
  for (let i = 0; i < Math.min(gone.length, added.length, maxPairs); i++) {
    if (gone[i].length + added[i].length > maxPairLength) continue;
    const [a, b] = [words(gone[i]), words(added[i])];
    if ((budget.left -= a.length * b.length) < 0) break;
    const parts = joinReplacements(compare(a, b).map(joined));
    const same = parts.reduce((n, p) => n + (p.kind === "same" ? p.text.length : 0), 0);
    if (2 * same < minSimilar * (gone[i].length + added[i].length)) continue;
    block.gone[i] = parts.filter((p) => p.kind !== "new");
    block.added[i] = parts.filter((p) => p.kind !== "gone");
  }
  return block;
}

// compare returns the parts of two lists, or undefined if there is too much to compare.
function compare(a, b) {
  let head = 0;
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const out = [];
  const add = (kind, items) => {
    if (items.length === 0) return;
    if (out.length > 0 && out.at(-1).kind === kind) for (const x of items) out.at(-1).items.push(x);
    else out.push({ kind, items });
  };
  add("same", a.slice(0, head));
  const end = tail > 0 ? a.slice(-tail) : [];
  a = a.slice(head, a.length - tail);
  b = b.slice(head, b.length - tail);
  if (a.length * b.length > maxComparisons) return undefined;
  for (const [kind, item] of common(a, b)) add(kind, [item]);
  add("same", end);
  return out;
}

// common walks along the longest common subsequence.
function* common(a, b) {
  const width = b.length + 1;
  const long = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      long[i * width + j] = a[i] === b[j] ? long[(i + 1) * width + j + 1] + 1 : Math.max(long[(i + 1) * width + j], long[i * width + j + 1]);
    }
  }
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      yield ["same", a[i++]];
      j++;
    } else if (i < a.length && (j === b.length || long[(i + 1) * width + j] >= long[i * width + j + 1])) {
      yield ["gone", a[i++]];
    } else {
      yield ["new", b[j++]];
    }
  }
}

// joinReplacements moves removed parts before added ones if only white space is between them.
function joinReplacements(parts) {
  const out = [];
  let removed = "";
  let added = "";
  const flush = () => {
    if (removed) out.push({ kind: "gone", text: removed });
    if (added) out.push({ kind: "new", text: added });
    removed = added = "";
  };
  parts.forEach((p, i) => {
    if (p.kind === "gone") removed += p.text;
    else if (p.kind === "new") added += p.text;
    else if (removed && added && /^[^\S\n]+$/.test(p.text) && i + 1 < parts.length) {
      removed += p.text;
      added += p.text;
    } else {
      flush();
      out.push(p);
    }
  });
  flush();
  return out;
}
