// Drafts are what the user has typed and not sent yet. They outlive their page, so that they
// are restored after the key had to be entered again. They are in memory only.
const drafts = new Map();

// draft saves what is typed into a field, under a name, and restores it. Other values of the
// field are not drafts.
export function draft(field, name) {
  const begin = field.value;
  if (drafts.has(name)) field.value = drafts.get(name);
  field.addEventListener("input", () => (field.value === begin ? drafts.delete(name) : drafts.set(name, field.value)));
  return field;
}

// deleteDrafts deletes the drafts whose names begin with a prefix, or all drafts without one.
export function deleteDrafts(begin = "") {
  for (const name of drafts.keys()) if (name.startsWith(begin)) drafts.delete(name);
}
