// What a script finds when it begins, and what calls its hooks. It is evaluated
// once, before the script; the function that it gives is the only thing that
// glue.c calls afterwards. What a script does to the built-in objects it does to
// itself, so nothing here tries to be out of its reach.
(function (host) {
	"use strict";

	// The numbers of host calls, outcomes and orders are those of glue.c.
	const WRITE = 0, LOG = 1, NEXT = 2, NEXT_STREAM = 3, RECV = 4, SEND = 5, MESSAGES = 6, CHANGED = 7,
		LOCAL_GET = 8, LOCAL_SET = 9, LOCAL_DELETE = 10, LOCAL_ADD = 11, EMIT = 12, MODEL = 13, TOOL = 14, HTTP = 15,
		STORE_GET = 16, STORE_SET = 17, STORE_DELETE = 18, STORE_ADD = 19, RANDOM = 20;
	const DONE = 0, FAILED = 1, THREW = 2, PENDING = 4;
	const LOAD = -1, SETTLE = -2, CATCH = -3, LOST = -4;

	const HOOKS = [
		"describe", "configure", "before_agent", "before_model_rewrite_state", "before_model", "wrap_model", "on_chunk",
		"after_model", "after_model_rewrite_state", "before_tool", "wrap_tool_call", "gate_tool", "call_tool", "after_tool",
		"tool_messages", "after_tools", "after_agent", "observe", "translate_before", "translate_after",
	];
	const camel = (name) => name.replace(/_([a-z])/g, (_, c) => c.toUpperCase());
	const CAMEL = HOOKS.map(camel);
	const ABOUT = ["name", "version", "description", "requires", "messages", "events", "holdStream", "configSchema"];

	// What the host is told is text that can be written: half of a surrogate pair, as
	// slice may leave it, becomes U+FFFD. In JSON it stands as an escape, but so do
	// backslashes.
	const { stringify: written } = JSON;
	const stringify = (value) => {
		const text = written(value);
		return text?.includes("\\ud") ? text.replace(/\\(?:\\|ud[89a-f][0-9a-f]{2})/g, (e) => (e === "\\\\" ? e : "\ufffd")) : text;
	};
	const promised = Promise.prototype.then;

	// A HookError fails the hook that throws it; host calls that fail throw one.
	class HookError extends Error {
		constructor(message, more = {}) {
			super(message);
			const { code = "internal", ...rest } = typeof more === "string" ? { code: more } : more;
			Object.assign(this, rest, { code });
		}
	}
	Object.defineProperty(HookError.prototype, "name", { value: "HookError", configurable: true, writable: true });

	// ask makes a host call. What the host refuses it throws as the plain object
	// that it has sent.
	function ask(...call) {
		try {
			return host(...call);
		} catch (e) {
			if (e === null || typeof e !== "object" || e instanceof Error) throw e;
			const { message, ...rest } = e;
			throw new HookError(message, rest);
		}
	}

	// json is what the host is handed: nothing for undefined.
	function json(value, what) {
		if (value === undefined) return "";
		const text = stringify(value);
		if (text === undefined) throw new TypeError(`${what}: a ${typeof value} cannot be written as JSON`);
		return text;
	}

	function freeze(value) {
		if (value !== null && typeof value === "object") {
			for (const key in value) freeze(value[key]);
			Object.freeze(value);
		}
		return value;
	}

	// What was pulled of the lists of messages, by the number of the list. It is
	// asked once a revision where the list has changed.
	const pulled = [];
	const WINDOW = 16;

	class Messages {
		#list;
		#revision;
		#length;

		constructor(list) {
			this.#list = list.list;
			this.#revision = list.revision;
			this.#length = list.total;
			if (list.items) pulled[list.list] = { revision: list.revision, items: freeze(list.items) };
		}

		get length() {
			return this.#length;
		}

		get revision() {
			return this.#revision;
		}

		changedSince(revision) {
			return revision === this.#revision ? this.#length : ask(CHANGED, this.#list, whole(revision, "revision"));
		}

		// known are the messages of this revision that are here.
		#known() {
			let p = pulled[this.#list];
			if (p === undefined || p.revision !== this.#revision) {
				const same = p === undefined || p.items.length === 0 ? 0 : ask(CHANGED, this.#list, p.revision);
				p = { revision: this.#revision, items: same === 0 ? [] : p.items.slice(0, same) };
				pulled[this.#list] = p;
			}
			return p.items;
		}

		// load sees to it that messages are here, from up to, not including, to.
		#load(from, to) {
			const items = this.#known();
			while (from < to && items[from] !== undefined) from++;
			while (from < to && items[to - 1] !== undefined) to--;
			while (from < to) {
				let n = to - from;
				let got;
				for (;;) {
					try {
						got = ask(MESSAGES, this.#list, from, from + n);
						break;
					} catch (e) {
						if (n === 1 || e.code !== "limit") throw e;
						n = n >> 1;
					}
				}
				if (got.length === 0) throw new HookError(`message ${from} of ${this.#length} cannot be had`, "not_found");
				for (const m of got) items[from++] = freeze(m);
			}
			return items;
		}

		#index(i) {
			i = Math.trunc(i) || 0;
			return i < 0 ? i + this.#length : i;
		}

		// Who reads one message after another gets the next ones with it.
		at(i) {
			i = this.#index(i);
			if (i < 0 || i >= this.#length) return undefined;
			const items = this.#known();
			if (items[i] !== undefined) return items[i];
			if (i > 0 && items[i - 1] !== undefined) return this.#load(i, Math.min(i + WINDOW, this.#length))[i];
			if (items[i + 1] !== undefined) return this.#load(Math.max(0, i + 1 - WINDOW), i + 1)[i];
			return this.#load(i, i + 1)[i];
		}

		slice(from = 0, to = this.#length) {
			from = Math.max(0, this.#index(from));
			to = Math.min(this.#length, this.#index(to));
			return from < to ? this.#load(from, to).slice(from, to) : [];
		}

		*[Symbol.iterator]() {
			for (let i = 0; i < this.#length; i++) {
				if (this.#known()[i] === undefined) this.#load(i, Math.min(i + WINDOW, this.#length));
				yield this.#known()[i];
			}
		}

		findLastIndex(test) {
			for (let i = this.#length - 1; i >= 0; i--) {
				if (this.#known()[i] === undefined) this.#load(Math.max(0, i + 1 - WINDOW), i + 1);
				if (test(this.#known()[i], i)) return i;
			}
			return -1;
		}

		findLast(test) {
			const i = this.findLastIndex(test);
			return i < 0 ? undefined : this.at(i);
		}

		// The rest gives patches, for the field messages of an answer.

		append(...messages) {
			return this.insert(this.#length, ...messages);
		}

		insert(at, ...messages) {
			return { splice: [{ at: this.#index(at), insert: messages }] };
		}

		set(at, ...messages) {
			return { splice: [{ at: this.#index(at), remove: 1, insert: messages }] };
		}

		remove(at, count = 1) {
			return { splice: [{ at: this.#index(at), remove: count }] };
		}

		rewrite(change) {
			const splice = [];
			let i = 0;
			for (const m of this) {
				const now = change(m, i);
				if (now === null) splice.push({ at: i, remove: 1 });
				else if (now !== undefined && now !== m) splice.push({ at: i, remove: 1, insert: Array.isArray(now) ? now : [now] });
				i++;
			}
			return splice.length === 0 ? undefined : { splice };
		}

		toJSON() {
			return this.slice();
		}
	}

	// show makes what is logged a text.
	function show(value) {
		try {
			switch (typeof value) {
			case "string": return value;
			case "bigint": return `${value}n`;
			case "object":
				if (value instanceof Error) return `${value}\n${value.stack}`.trimEnd();
				return stringify(value) ?? String(value);
			default: return String(value);
			}
		} catch (e) {
			return "[what cannot be shown]";
		}
	}

	const logger = (level) => (...values) => {
		host(LOG, level, values.map(show).join(" "));
	};
	const log = Object.freeze({ debug: logger(0), info: logger(1), warn: logger(2), error: logger(3) });

	function whole(n, what) {
		if (!Number.isSafeInteger(n)) throw new TypeError(`${what} is ${show(n)}; want a whole number`);
		return n;
	}

	// What durable and run-local values have in common.
	const versioned = (get, set, remove, add) => ({
		get: (key) => ask(get, String(key))?.value,
		read: (key) => ask(get, String(key)) ?? { value: undefined, version: 0 },
		set(key, value, options = {}) {
			if (value === undefined) throw new TypeError("set: the value is undefined; delete removes one");
			const { version = -1, ttl = 0 } = options;
			return ask(set, String(key), json(value, "set"), whole(version, "version"), whole(ttl, "ttl"))?.version;
		},
		delete(key) {
			ask(remove, String(key));
		},
		add: (key, delta = 1) => ask(add, String(key), whole(delta, "delta")),
	});
	const local = Object.freeze(versioned(LOCAL_GET, LOCAL_SET, LOCAL_DELETE, LOCAL_ADD));
	const store = Object.freeze(versioned(STORE_GET, STORE_SET, STORE_DELETE, STORE_ADD));

	const inner = (reply) => reply?.response ?? reply?.result;

	// A Stream is what next_stream opened.
	class Stream {
		response = undefined;
		result = undefined;
		#ended = false;

		recv() {
			const got = this.#ended ? undefined : ask(RECV);
			if (got?.end) Object.assign(this, got.end);
			if (got?.chunks) return got.chunks;
			this.#ended = true;
			return undefined;
		}

		*[Symbol.iterator]() {
			for (let chunks; (chunks = this.recv()) !== undefined;) yield chunks;
		}
	}

	class Context {
		constructor(hook, input) {
			this.hook = hook;
			this.entry = input.entry;
			this.run = input.run;
			this.config = config;
		}

		next(patch) {
			return inner(ask(NEXT, json(patch, "next")));
		}

		nextStream(patch) {
			ask(NEXT_STREAM, json(patch, "nextStream"));
			return new Stream();
		}

		send(chunks) {
			ask(SEND, json({ chunks }, "send"));
		}

		emit(name, data) {
			ask(EMIT, json({ name, data }, "emit"));
		}

		model(request) {
			return inner(ask(MODEL, json(request, "model")));
		}

		tool(name, args = {}) {
			return inner(ask(TOOL, json({ name, arguments: typeof args === "string" ? args : json(args, "tool") }, "tool")));
		}

		http(request) {
			return ask(HTTP, json(request, "http"));
		}

		stop(reason, code) {
			return { stop: { reason, code } };
		}

		interrupt(reason, payload) {
			return { interrupt: { reason, payload } };
		}
	}
	Object.assign(Context.prototype, { log, local, store });

	// What stands for the world outside.

	Object.defineProperty(globalThis, "HookError", { value: HookError, configurable: true, writable: true });
	Object.defineProperty(globalThis, "console", {
		value: { debug: log.debug, log: log.info, info: log.info, warn: log.warn, error: log.error, trace: log.debug },
		configurable: true, writable: true,
	});
	Object.defineProperty(Math, "random", { value: () => host(RANDOM), configurable: true, writable: true });

	// The middleware.

	let self; // what hooks are methods of
	const hooks = {};
	let config;
	let waiting; // for a promise: what it came to, once that is known

	function load(exported) {
		if (exported === null || typeof exported !== "object") {
			throw new TypeError("the script exports nothing; write export default defineMiddleware({…})");
		}
		const given = exported.default;
		if (given !== null && typeof given === "object") {
			check(given);
			self = given;
		} else if (given !== undefined) {
			throw new TypeError(`export default is a ${typeof given}; want an object with hooks: export default defineMiddleware({…})`);
		} else {
			self = exported;
		}
		HOOKS.forEach((name, i) => {
			const hook = self[CAMEL[i]] ?? self[name];
			if (hook === undefined) return;
			if (typeof hook !== "function") throw new TypeError(`${CAMEL[i]} is a ${typeof hook}; want a function`);
			hooks[name] = hook;
		});
		if (!HOOKS.some((name, i) => i > 1 && hooks[name])) {
			throw new TypeError(`the script has no hook, so nothing of it would ever be called; there are ${CAMEL.slice(2).join(", ")}`);
		}
		return DONE;
	}

	// check refuses what would silently do nothing.
	function check(given) {
		for (const key of Object.keys(given)) {
			if (ABOUT.includes(key) || CAMEL.includes(key) || HOOKS.includes(key) || key.startsWith("_")) continue;
			const near = [...CAMEL, ...ABOUT].find((k) => k.toLowerCase() === key.replace(/[_-]/g, "").toLowerCase() || close(k, key));
			throw new TypeError(`defineMiddleware: there is no ${key}` +
				(near ? `; did you mean ${near}?` : "; what is the middleware's own begins with _, or stands outside"));
		}
	}

	// close reports whether two words differ by one letter: more, fewer or other.
	function close(a, b) {
		let i = 0, j = 0;
		while (i < a.length && a[i] === b[i]) i++;
		while (j < Math.min(a.length, b.length) - i && a[a.length - 1 - j] === b[b.length - 1 - j]) j++;
		return Math.max(a.length, b.length) - i - j <= 1;
	}

	function describe() {
		const said = hooks.describe ? hooks.describe.call(self, {}) : {
			name: self.name, version: self.version, description: self.description, requires: self.requires,
			messages: self.messages, events: self.events, hold_stream: self.holdStream, config_schema: self.configSchema,
		};
		return { messages: "lazy", hooks: HOOKS.filter((name) => hooks[name] && name !== "describe"), ...known(said) };
	}

	// known leaves out what is undefined.
	const known = (o) => Object.fromEntries(Object.entries(o ?? {}).filter(([, value]) => value !== undefined));

	function call(name, input) {
		if (name === "describe") return answer(name, describe());
		if (name === "configure") config = freeze(input.config);
		const hook = hooks[name];
		if (hook === undefined) return DONE;
		if (input.messages !== undefined && name !== "tool_messages") input.messages = new Messages(input.messages);
		if (input.request?.messages !== undefined) input.request.messages = new Messages(input.request.messages);
		const got = hook.call(self, input, new Context(name, input));
		if (typeof got?.then !== "function") return answer(name, got);
		waiting = { name };
		const promise = got instanceof Promise ? got : Promise.resolve(got);
		promised.call(promise,
			(value) => { waiting.value = value; waiting.settled = true; },
			(error) => { waiting.error = error; waiting.settled = waiting.rejected = true; });
		return PENDING;
	}

	function settle() {
		const { name, settled, rejected, value, error } = waiting;
		waiting = undefined;
		if (!settled) {
			throw new TypeError(`the promise of ${camel(name)} never settles: it waits for something that will not happen; ` +
				"only what the context gives can be awaited");
		}
		return rejected ? threw(error) : answer(name, value);
	}

	function answer(name, value) {
		if (value === undefined || value === null) return DONE;
		if (typeof value !== "object" || Array.isArray(value)) {
			throw new TypeError(`${camel(name)} returned ${Array.isArray(value) ? "an array" : `a ${typeof value}`}; want an object, or nothing`);
		}
		host(WRITE, stringify(value));
		return DONE;
	}

	// The engine's own errors are mistakes of the script; others say that the hook
	// fails.
	const mistakes = [TypeError, RangeError, ReferenceError, SyntaxError, EvalError, URIError, InternalError];

	function threw(e) {
		if (mistakes.some((type) => e instanceof type)) return fault(e);
		const failure = { code: "internal", message: e instanceof Error ? String(e.message || e.name) : show(e) };
		if (!(e instanceof Error) && (e?.stop || e?.interrupt)) failure.message = "it threw what ctx.stop or ctx.interrupt gave; return that";
		if (e instanceof Error && typeof e.code === "string") {
			const { code, retryable, status, retry_after_ms } = e;
			Object.assign(failure, { code, retryable, status, retry_after_ms });
		}
		if (e instanceof Error) host(LOG, 0, show(e));
		host(WRITE, stringify(failure));
		return FAILED;
	}

	function fault(e) {
		const told = { name: "", message: "", stack: "" };
		try {
			if (e instanceof Error) {
				told.name = String(e.name);
				told.message = String(e.message);
				told.stack = String(e.stack);
			} else {
				told.message = show(e);
			}
		} catch (_) {
			told.message ||= "an error that cannot be read";
		}
		host(WRITE, stringify(told));
		return THREW;
	}

	function lost(e) {
		log.warn("a promise was rejected, and nothing awaits it:", e);
		return DONE;
	}

	return function dispatch(what, value) {
		try {
			switch (what) {
			case LOAD: return load(value);
			case SETTLE: return settle();
			case CATCH: return fault(value);
			case LOST: return lost(value);
			default: return call(HOOKS[what], value);
			}
		} catch (e) {
			if (what === LOST) return DONE;
			return what === LOAD || what === 0 ? fault(e) : threw(e);
		}
	};
})
