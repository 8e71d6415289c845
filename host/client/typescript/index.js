/** An error that the server reported as problem details (RFC 9457). */
export class ProblemError extends Error {
	constructor(problem, status, retryAfter) {
		super(problem.detail || problem.title || `the server answered with status ${status}`);
		this.name = "ProblemError";
		this.problem = problem;
		this.status = status;
		this.code = (problem.type || "").replace("urn:agent-runner:problem:", "");
		this.retryAfterMs = retryAfter > 0 ? retryAfter * 1000 : undefined;
	}
}

/** A client of one server with one key. */
export class Client {
	#base;
	#key;
	#fetch;

	constructor(options) {
		this.#base = (options.baseUrl ?? "").replace(/\/+$/, "");
		this.#key = options.key;
		this.#fetch = options.fetch ?? ((...args) => fetch(...args));
	}

	/** Sends a request and returns the body of the response, or undefined if it has none. */
	async request(method, path, options = {}) {
		const response = await this.#send(method, path, { ...options, accept: "application/json" });
		const text = await response.text();
		return text === "" ? undefined : JSON.parse(text);
	}

	async #send(method, path, options) {
		const { body } = options;
		const raw = typeof body === "string" || body instanceof Uint8Array || body instanceof ArrayBuffer;
		const headers = { Accept: options.accept, ...options.headers };
		if (this.#key) headers.Authorization = `Bearer ${this.#key}`;
		if (body !== undefined && !raw) headers["Content-Type"] ??= "application/json";
		const response = await this.#fetch(this.#base + fill(path, options.path) + search(options.query), {
			method: method.toUpperCase(),
			headers,
			body: body === undefined || raw ? body : JSON.stringify(body),
			signal: options.signal,
		});
		if (response.ok) return response;
		const text = await response.text();
		let problem = {};
		try {
			problem = JSON.parse(text);
		} catch {
			problem = { title: response.statusText, detail: text.slice(0, 500) };
		}
		throw new ProblemError(problem, response.status, Number(response.headers.get("Retry-After")));
	}

	/** Iterates over the rows of all pages of a list. */
	async *list(path, options = {}) {
		let cursor;
		do {
			const page = await this.request("get", path, { ...options, query: { ...options.query, ...(cursor && { cursor }) } });
			for (const rows of Object.values(page)) if (Array.isArray(rows)) yield* rows;
			if (page.next_cursor && page.next_cursor === cursor) throw new Error("the server returned a cursor twice in a row");
			cursor = page.next_cursor;
		} while (cursor);
	}

	/** Starts a run, or resumes a paused one, and returns without waiting for its end. */
	startRun(run, options = {}) {
		const key = options.idempotencyKey ?? crypto.randomUUID();
		return this.request("post", "/v1/runs", { body: run, headers: { "Idempotency-Key": key }, signal: options.signal });
	}

	/** Iterates over the runs that a filter selects. */
	runs(filter = {}, options = {}) {
		return this.list("/v1/runs", { query: filter, signal: options.signal });
	}

	/**
	 * Iterates over the events of a run after number options.after, until the run ends or pauses. It
	 * connects again if the connection is lost, and yields each event once.
	 */
	async *events(run, options = {}) {
		let after = options.after ?? 0;
		for (let failures = 0; ; ) {
			const before = after;
			try {
				const response = await this.#send("get", "/v1/runs/{run}/events", {
					path: { run },
					accept: "text/event-stream",
					headers: after > 0 ? { "Last-Event-ID": String(after) } : {},
					signal: options.signal,
				});
				if (response.status === 204) return;
				for await (const event of eventsOf(response.body)) {
					after = event.seq;
					yield event;
					if (event.type === "run_finished" || event.type === "run_paused") return;
				}
			} catch (error) {
				options.signal?.throwIfAborted();
				if (error instanceof ProblemError && error.status < 500 && error.status !== 429) throw error;
				if (after === before && ++failures > (options.retries ?? 5)) throw error;
			}
			if (after > before) failures = 0;
			else await delay(Math.min(5000, 250 * 2 ** failures), options.signal);
		}
	}

	/** Starts a run, or resumes a paused one, and iterates over its events. */
	async *stream(run, options = {}) {
		const started = await this.startRun(run, options);
		const after = run.run ? await this.#resumedAt(started, options) : 0;
		yield* this.events(started.id, { ...options, after });
	}

	/** Returns the number of the last event before a run was resumed: that of its last pause. */
	async #resumedAt(run, options) {
		let last = 0;
		for (let more = true, after = 0; more; ) {
			const page = await this.request("get", "/v1/runs/{run}/events", {
				path: { run: run.id },
				query: { after },
				signal: options.signal,
			});
			for (const event of page.events) {
				after = event.seq;
				if (event.type === "run_paused") last = event.seq;
			}
			more = page.more && page.events.length > 0;
		}
		return last;
	}
}

/** Replaces the parameters of a path. */
function fill(path, values = {}) {
	return path.replace(/\{(\w+)\}/g, (_, name) => {
		if (values[name] === undefined || values[name] === "") throw new Error(`the path ${path} needs ${name}`);
		return encodeURIComponent(values[name]);
	});
}

/** Returns a query string. Lists are repeated, and objects have their members in brackets. */
function search(query = {}) {
	const out = new URLSearchParams();
	for (const [name, value] of Object.entries(query)) {
		if (value === undefined || value === null) continue;
		if (Array.isArray(value)) for (const item of value) out.append(name, item);
		else if (value instanceof Date) out.set(name, value.toISOString());
		else if (typeof value === "object") for (const [key, item] of Object.entries(value)) out.set(`${name}[${key}]`, item);
		else out.set(name, value);
	}
	const text = out.toString();
	return text && `?${text}`;
}

/** The maximum length of one event, in characters. */
const maxEvent = 32 << 20;

/** Iterates over the events of a stream of server-sent events. */
async function* eventsOf(stream) {
	const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
	try {
		// pieces holds the incomplete block, and end its last characters.
		for (let pieces = [], size = 0, end = ""; ; ) {
			const { done, value } = await reader.read();
			if (done) return;
			pieces.push(value);
			size += value.length;
			if (size > maxEvent + value.length) throw new Error("an event of the stream is too large");
			end = end.slice(-3) + value;
			if (!/\n\r?\n/.test(end)) continue;
			const blocks = pieces.join("").split(/\r?\n\r?\n/);
			pieces = [end = blocks.pop()];
			size = end.length;
			for (const block of blocks) {
				const data = block
					.split(/\r?\n/)
					.filter((line) => line.startsWith("data:"))
					.map((line) => line.slice(5).replace(/^ /, ""));
				if (data.length === 0) continue;
				const event = JSON.parse(data.join("\n"));
				if (typeof event.seq === "number") yield event;
			}
		}
	} finally {
		await reader.cancel().catch(() => {});
	}
}

function delay(ms, signal) {
	return new Promise((resolve, reject) => {
		const stop = () => {
			clearTimeout(timer);
			reject(signal.reason);
		};
		const timer = setTimeout(() => {
			signal?.removeEventListener("abort", stop);
			resolve();
		}, ms);
		signal?.addEventListener("abort", stop, { once: true });
	});
}
