// The page that asks for a key.
import { h, fill, announce } from "./dom.js";
import { field, asyncAction, errorMessage } from "./parts.js";
import { signIn } from "./api.js";

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
  announce("Sign in");
  return h("div", { class: "signin" },
    h("div", { class: "brand" }, h("span", { class: "mark", "aria-hidden": "true" }), "agent-runner"),
    h("form", { class: "card", onsubmit: go, method: "post" },
      h("h1", { tabindex: "-1" }, "Sign in"),
      h("p", { class: "soft" }, "Enter a key of this server. It is stored only in this tab, until you close it."),
      field("Key", input), place, button));
}
