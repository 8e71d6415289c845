// The module that middlewares import. agent-runner has it built in; scripts need this
// package only for editors, type checkers and tests.

/** Returns the middleware unchanged. It only provides types. */
export const defineMiddleware = (middleware) => middleware;

/** An error with a code, thrown by hooks and by failed calls of the host. */
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

/** Returns the text of a message or result: the string, or the concatenated parts of type text. */
export const textOf = ({ content }) =>
	typeof content === "string" ? content : (content ?? []).filter((p) => p.type === "text").map((p) => p.text).join("");
