// What somebody has typed and not sent yet: it outlives its page, so that it is there
// again after the key had to be given once more. It is kept in memory alone.
const drafts = new Map();

// draft keeps what is typed into a field, under a name, and puts it there again. What
// the field shows otherwise is no draft.
export function draft(field, name) {
  const begin = field.value;
  if (drafts.has(name)) field.value = drafts.get(name);
  field.addEventListener("input", () => (field.value === begin ? drafts.delete(name) : drafts.set(name, field.value)));
  return field;
}

// sent forgets drafts whose names begin so: what they were for is done. Without a name
// all are forgotten.
export function sent(begin = "") {
  for (const name of drafts.keys()) if (name.startsWith(begin)) drafts.delete(name);
}
