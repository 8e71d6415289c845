// The page that asks for a key, or sends the browser to the identity provider.
import { h, fill, announce } from "./dom.js";
import { field, asyncAction, errorMessage } from "./parts.js";
import { signIn, joinSession } from "./api.js";

const reasons = {
  denied: "The identity provider, or this server, denied the sign-in.",
  no_role: "You have no role here. Ask an owner of your tenant to add you as a member.",
  expired: "The sign-in took too long, or began in another browser. Try again.",
  provider: "The identity provider is not responding. Try again.",
  busy: "Too many people are signing in. Try again.",
};

// offerProvider fills a place with the link to the identity provider, if there is one. If the
// browser has a session, it calls done instead.
async function offerProvider(place, done) {
  const { name, url } = await fetch("/auth").then((r) => r.json());
  if (!name) return;
  const failed = new URLSearchParams(location.search).get("sign_in");
  if (failed) history.replaceState(null, "", `/${location.hash}`);
  else if (await joinSession()) return done();
  const to = location.hash.startsWith("#/") ? `/${location.hash}` : "/";
  fill(place, failed && errorMessage({ message: reasons[failed] ?? "The sign-in failed. Try again." }),
    h("p", null, h("a", { class: "button main", href: `${url}?${new URLSearchParams({ return_to: to })}` }, `Sign in with ${name}`)));
}

// signInPage makes the page. why is shown as an error; done is called when the user is signed in.
export function signInPage(why, done) {
  const input = h("input", { type: "password", name: "key", autocomplete: "off", autocapitalize: "none", spellcheck: "false", required: true, placeholder: "ar_…" });
  const place = h("div");
  const button = h("button", { type: "submit", class: "main" }, "Sign in");
  if (why) fill(place, errorMessage({ message: why }));
  const go = asyncAction(button, place, async () => {
    try {
      await signIn(input.value.trim());
    } catch (e) {
      input.select();
      throw e;
    }
    await done();
  });
  const provider = h("div");
  offerProvider(provider, done).catch(() => {}); // a key still works
  announce("Sign in");
  return h("div", { class: "signin" },
    h("div", { class: "brand" }, h("span", { class: "mark", "aria-hidden": "true" }), "agent-runner"),
    h("form", { class: "card", onsubmit: go, method: "post" },
      h("h1", { tabindex: "-1" }, "Sign in"), provider,
      h("p", { class: "soft" }, "Enter a key of this server. It is stored only in this tab, until you close it."),
      field("Key", input), place, button));
}
