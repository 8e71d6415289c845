// drafts holds the text that the user has typed and not sent yet, by name. Drafts are kept in memory
// only. They outlive their page, so that they can be restored after the user had to enter the key
// again.
const drafts = new Map();

// draft saves the text that the user types into a field, under a name, and restores it. A value that
// equals the field's initial value is not a draft.
export function draft(field, name) {
  const begin = field.value;
  if (drafts.has(name)) field.value = drafts.get(name);
  field.addEventListener("input", () => (field.value === begin ? drafts.delete(name) : drafts.set(name, field.value)));
  return field;
}

// deleteDrafts deletes the drafts whose names begin with a prefix, or all drafts if the prefix is
// empty.
export function deleteDrafts(begin = "") {
  for (const name of drafts.keys()) if (name.startsWith(begin)) drafts.delete(name);
}
