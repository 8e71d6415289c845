// Requests to the server. A key is stored for as long as the tab is open, and sent in a header. The
// server accepts the cookie of a session only from its own pages.
import { SSE } from "./sse.js";

const storageKey = "agent-runner-key";
let keyRejected = () => {};

export const key = () => sessionStorage.getItem(storageKey);
export const isOperator = () => sessionStorage.getItem(`${storageKey}-operator`) === "yes";
// A person who signed in with the identity provider has a session in a cookie, which scripts cannot
// read, instead of a key.
const session = "session";
const inSession = () => key() === session;
export const keyName = () => (inSession() ? sessionStorage.getItem(`${storageKey}-name`) : `ar_${key()?.split("_")[1] ?? ""}`);

// tenantHeader returns the header X-Tenant with the tenant that the person has chosen, if the person
// has several.
const tenantHeader = () => {
  const name = sessionStorage.getItem(`${storageKey}-tenant`);
  return name ? { "X-Tenant": name } : {};
};

// joinSession checks whether the browser has a session, and then uses it in place of a key.
export async function joinSession() {
  const response = await fetch("/v1/me", { cache: "no-store", credentials: "same-origin", headers: tenantHeader() });
  if (response.status === 403 && sessionStorage.getItem(`${storageKey}-tenant`)) { // the person has no role in the tenant any more
    sessionStorage.removeItem(`${storageKey}-tenant`);
    return joinSession();
  }
  if (!response.ok) return false;
  const me = await response.json();
  sessionStorage.setItem(storageKey, session);
  sessionStorage.setItem(`${storageKey}-operator`, me.tenant === "" ? "yes" : "no");
  sessionStorage.setItem(`${storageKey}-name`, [me.name || me.id, me.role].filter(Boolean).join(", "));
  sessionStorage.setItem(`${storageKey}-tenants`, JSON.stringify({ now: me.tenant, list: me.tenants ?? [] }));
  return true;
}

// myTenants returns the tenants among which the person can choose, and the chosen one. The operator's
// tenant has an empty name. A user who signed in with a key has no choice.
export const myTenants = () => JSON.parse(sessionStorage.getItem(`${storageKey}-tenants`) ?? '{"now":"","list":[]}');

// chooseTenant selects the tenant of the person's next requests.
export async function chooseTenant(name) {
  sessionStorage.setItem(`${storageKey}-tenant`, name || "@operator");
  await joinSession();
}

export function signOut() {
  if (inSession()) fetch("/v1/sign-out", { method: "POST", credentials: "same-origin", keepalive: true }).catch(() => {});
  for (const name of ["", "-name", "-operator", "-tenant", "-tenants"]) sessionStorage.removeItem(storageKey + name);
  sessionStorage.removeItem("agent-runner-theme");
}

// onKeyRejected is called when the server rejects the key.
export function onKeyRejected(f) {
  keyRejected = f;
}

// A Problem is an error of the server, as problem details.
export class Problem extends Error {
  constructor(status, retryAfter, body) {
    super(body?.detail || body?.title || `the server answered ${status}`);
    this.status = status;
    this.retry = Number(retryAfter) || 0;
    this.errors = body?.errors ?? [];
    for (const e of this.errors) if (!this.message.includes(e.message)) this.message += `\n${e.location ? `${e.location}: ` : ""}${e.message}`;
  }
}

// authorization returns the headers that prove who is signed in, and for which tenant.
export const authorization = (as) => (!as && inSession() ? tenantHeader() : { Authorization: `Bearer ${as ?? key()}` });

async function send(method, path, { body, accept = "application/json", signal, headers, as } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method, signal, cache: "no-store", credentials: !as && inSession() ? "same-origin" : "omit", redirect: "error",
      headers: { ...authorization(as), Accept: accept, ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body), // a string is sent as it is
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw Object.assign(new Error("The server is not responding. Is it running?"), { gone: true });
  }
  if (response.ok) return response;
  const p = new Problem(response.status, response.headers.get("Retry-After"), await response.json().catch(() => undefined));
  if (p.status === 401 && !as) keyRejected(p);
  throw p;
}

// call sends a request and returns its JSON.
export async function call(method, path, options) {
  const response = await send(method, path, options);
  const text = await response.text();
  return text === "" ? undefined : JSON.parse(text);
}

export const get = (path, signal) => call("GET", path, { signal });

// read returns the text of a response.
export const read = async (path, signal) => (await send("GET", path, { accept: "*/*", signal })).text();

// all reads a list to its end, by pages of limit rows.
export async function all(path, rows, signal, limit = 1000) {
  const list = [];
  for (let cursor = ""; ;) {
    const page = await get(`${path}?${new URLSearchParams({ limit, ...(cursor ? { cursor } : {}) })}`, signal);
    list.push(...page[rows]);
    cursor = page.next_cursor;
    if (!cursor) return list;
  }
}

// signIn stores a key, and whether it is the operator's: only the operator's key may list tenants. It
// throws if the server rejects the key.
export async function signIn(text) {
  let operator = "yes";
  try {
    await call("GET", "/v1/tenants?limit=1", { as: text });
  } catch (e) {
    if (e.status !== 403) throw e;
    operator = "no";
  }
  sessionStorage.setItem(storageKey, text);
  sessionStorage.setItem(`${storageKey}-operator`, operator);
}

export const pause = (ms, signal) => new Promise((done) => {
  const finish = () => {
    clearTimeout(t);
    signal?.removeEventListener("abort", finish);
    done();
  };
  const t = setTimeout(finish, ms);
  signal?.addEventListener("abort", finish);
});

// isTemporary reports whether an error may be temporary.
export const isTemporary = (e) => e.gone === true || [429, 502, 503, 504].includes(e.status);

// retryReason explains why a request is retried.
export const retryReason = (e) => (e.status === 429 ? "Too many requests" : e.status ? "The server is unavailable" : "The server is not responding");

// countdown reports how many seconds are left, each second.
export async function countdown(seconds, signal, onStatus) {
  for (let s = Math.max(1, Math.ceil(seconds)); s > 0 && !signal.aborted; s--) {
    onStatus(s);
    await pause(1000, signal);
  }
}

// events yields a run's events after a number, until the run ends or pauses. If the stream breaks, it
// reconnects and continues after the last event. If activity is true, it also yields events of the
// type activity, about the work of modules.
export async function* events(run, after, signal, onStatus = () => {}, { activity = false } = {}) {
  let wait = 500;
  while (!signal.aborted) {
    try {
      const response = await send("GET", `/v1/runs/${encodeURIComponent(run)}/events${activity ? "?activity=true" : ""}`, {
        accept: "text/event-stream", signal, headers: after > 0 ? { "Last-Event-ID": String(after) } : {} });
      if (response.status === 204) return;
      onStatus(true);
      const sse = new SSE();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        for (const e of sse.push(value)) {
          if (e.kind === "activity") {
            yield { type: "activity", ...JSON.parse(e.data) };
            continue;
          }
          after = Number(e.id) || after;
          wait = 500;
          yield JSON.parse(e.data);
        }
      }
      if (after === 0) return;
    } catch (e) {
      if (signal.aborted) return;
      if (e.status && e.status < 500 && e.status !== 429) throw e;
      if (wait < 1000 && !e.retry) {
        onStatus(false, "Reconnecting…"); // a stream that broke
        await pause(wait, signal);
      } else {
        await countdown(Math.max(wait / 1000, e.retry ?? 0), signal, (s) => onStatus(false, `${retryReason(e)}. Retrying in ${s} s`));
      }
      wait = Math.min(wait * 2, 15000);
    }
  }
}
