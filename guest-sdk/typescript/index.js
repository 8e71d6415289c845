// What a middleware imports. agent-runner has it built in, so that a script needs
// no package; this package is for editors, type checkers and tests.

/** Types the hooks of a middleware; gives it back as it is. */
export const defineMiddleware = (middleware) => middleware;

/** An error with a code: what fails a hook, and what a refused call of the host throws. */
export const HookError = globalThis.HookError ?? class HookError extends Error {
	constructor(message, more = {}) {
		super(message);
		const { code = "internal", ...rest } = typeof more === "string" ? { code: more } : more;
		Object.assign(this, rest, { code });
	}

	get name() {
		return "HookError";
	}
};

/** Answers of gateTool. */
export const allow = () => ({ decision: "allow" });
export const deny = (message) => ({ decision: "deny", message });
export const ask = (message, payload) => ({ decision: "ask", message, payload });

/** Results of tool calls. */
export const textResult = (content) => ({ content });
export const errorResult = (content) => ({ content, is_error: true });

/** The text of a message or result: of a string itself, or of all parts of type text. */
export const textOf = ({ content }) =>
	typeof content === "string" ? content : (content ?? []).filter((p) => p.type === "text").map((p) => p.text).join("");
