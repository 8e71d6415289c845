// Texts that are too long to show at once are cut here: laying out a megabyte of text would
// block the browser.

// cut returns the beginning, the middle and the end of a text. The middle is hidden; it is
// empty if the text is within the limits.
export function cut(text, chars, lines) {
  const headEnd = after(text, Math.ceil(lines / 2));
  const tailStart = before(text, Math.floor(lines / 2));
  if (text.length <= chars && headEnd >= tailStart) return [text, "", ""];
  const half = Math.floor(chars / 2);
  const head = alignIndex(text, Math.min(half, headEnd));
  const tail = alignIndex(text, Math.max(text.length - half, tailStart));
  return [text.slice(0, head), text.slice(head, tail), text.slice(tail)];
}

// begin returns the beginning of a text within the limits.
export const begin = (text, chars, lines) => text.slice(0, alignIndex(text, Math.min(chars, after(text, lines))));

// after returns the index at which the n-th line ends.
function after(text, n) {
  let at = 0;
  for (; n > 0; n--) {
    at = text.indexOf("\n", at) + 1;
    if (at === 0) return text.length;
  }
  return at;
}

// before returns the index at which the n-th line from the end begins.
function before(text, n) {
  let at = text.length;
  for (; n > 0 && at > 0; n--) at = text.lastIndexOf("\n", at - 1);
  return n > 0 ? 0 : at + 1;
}

// alignIndex moves an index out of a surrogate pair.
function alignIndex(text, at) {
  const c = text.charCodeAt(at);
  return at > 0 && at < text.length && c >= 0xdc00 && c < 0xe000 ? at - 1 : at;
}
