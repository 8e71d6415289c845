// Names of modules: people read names, the server uses digests.
import { h } from "./dom.js";
import { shortDigest } from "./parts.js";
import { all } from "./api.js";

const maxAge = 60000; // milliseconds
let known = { at: -maxAge };

// nameOf returns the name and version of a module, or else the name that the module reports.
export function nameOf(m) {
  const [n] = m.names;
  if (n) return `${n.name} ${n.version}`;
  return m.about.name ? `${m.about.name} ${m.about.version ?? ""}`.trim() : shortDigest(m.digest);
}

// moduleNames returns the names of the tenant's modules by digest. Without the permission to list
// modules, there are none.
export async function moduleNames(signal) {
  if (performance.now() - known.at < maxAge) return known.names;
  try {
    const list = await all("/v1/modules", "modules", signal);
    known = { at: performance.now(), names: new Map(list.map((m) => [m.digest, nameOf(m)])) };
    return known.names;
  } catch (e) {
    if (signal?.aborted) throw e;
    return new Map();
  }
}

// deleteNames makes the next call of moduleNames ask the server.
export function deleteNames() {
  known = { at: -maxAge };
}

// moduleLink is a link to a module, by its name.
export function moduleLink(digest, names) {
  const full = digest.startsWith("sha256:") ? digest : `sha256:${digest}`;
  return h("a", { href: `#/modules/${full}`, title: full }, names?.get(full) ?? h("code", null, shortDigest(full)));
}
