// The colour scheme: that of the system, until the user chooses another one for this tab.
const storageKey = "agent-runner-theme";
const root = document.documentElement;

export function toggleTheme() {
  const dark = (root.style.colorScheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.style.colorScheme = dark ? "light" : "dark";
  sessionStorage.setItem(storageKey, root.style.colorScheme);
}

// restoreTheme applies the colour scheme that the user has chosen in this tab.
export function restoreTheme() {
  const chosen = sessionStorage.getItem(storageKey);
  if (chosen === "light" || chosen === "dark") root.style.colorScheme = chosen;
}
