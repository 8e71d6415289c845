import type { components, paths } from "./openapi.js";

export type { components, paths };

type Schemas = components["schemas"];

export type Run = Schemas["Run"];
export type StartRun = Schemas["StartRun"];
export type Event = Schemas["Event"];
export type Problem = Schemas["Problem"];
export type Series = Schemas["Series"];

/** The methods of requests. */
export type Method = "get" | "put" | "post" | "patch" | "delete";

/** The paths that have operations with a method. */
export type PathsWith<M extends Method> = {
	[P in keyof paths]: paths[P] extends { [K in M]: object } ? P : never;
}[keyof paths];

type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
type JSONOf<R> = R extends { content: { "application/json": infer T } } ? T : never;
type Success<R> = { [S in keyof R]: S extends 200 | 201 | 202 ? JSONOf<R[S]> : never }[keyof R];

/** The body of an operation's response; undefined if it has none. */
export type ResponseOf<P extends keyof paths, M extends Method> = Operation<P, M> extends { responses: infer R }
	? [Success<R>] extends [never]
		? undefined
		: Success<R>
	: undefined;

/** The query parameters of an operation. */
export type QueryOf<P extends keyof paths, M extends Method> = Operation<P, M> extends { parameters: { query?: infer Q } }
	? Q
	: never;

/** The path parameters of an operation. */
export type PathOf<P extends keyof paths, M extends Method> = Operation<P, M> extends { parameters: { path: infer V } }
	? V
	: never;

/** The body of an operation's request. */
export type BodyOf<P extends keyof paths, M extends Method> = Operation<P, M> extends {
	requestBody?: { content: infer C };
}
	? C[keyof C] | Uint8Array
	: never;

/** Query parameters of the list of runs, without those of pages. */
export type RunFilter = Omit<NonNullable<QueryOf<"/v1/runs", "get">>, "cursor">;

type Rows<T> = T extends object
	? { [K in keyof T]-?: NonNullable<T[K]> extends readonly (infer R)[] ? R : never }[keyof T]
	: never;

export interface ClientOptions {
	/** The server's address, such as https://agents.example.com; the default is the page's own. */
	baseUrl?: string;
	/** An API key of a tenant, or an end-user token. */
	key?: string;
	/** Replaces the global fetch. */
	fetch?: typeof fetch;
}

export interface RequestOptions<P extends keyof paths, M extends Method> {
	path?: PathOf<P, M>;
	query?: QueryOf<P, M>;
	body?: BodyOf<P, M>;
	headers?: Record<string, string>;
	signal?: AbortSignal;
}

export interface StartOptions {
	/** Identifies the request: repeating it starts no second run. The default is a random one. */
	idempotencyKey?: string;
	signal?: AbortSignal;
}

export interface EventOptions {
	/** Only events after this number; the default is 0. */
	after?: number;
	/** How many times in a row to reconnect without receiving an event before failing; the default is 5. */
	retries?: number;
	signal?: AbortSignal;
}

/** An error that the server reported as problem details (RFC 9457). */
export class ProblemError extends Error {
	readonly problem: Partial<Problem>;
	/** The HTTP status. */
	readonly status: number;
	/** The last part of the problem's type, such as "not-found" or "quota-reached". */
	readonly code: string;
	/** The time after which a retry may succeed, in milliseconds. */
	readonly retryAfterMs?: number;
}

/** A client of one server with one key. */
export class Client {
	constructor(options: ClientOptions);
	/**
	 * Sends a request to an operation of the API, and returns the body of the response.
	 * It fails with a ProblemError.
	 */
	request<M extends Method, P extends PathsWith<M>>(
		method: M,
		path: P,
		options?: RequestOptions<P, M>,
	): Promise<ResponseOf<P, M>>;
	/** Iterates over the rows of all pages of a list. */
	list<P extends PathsWith<"get">>(
		path: P,
		options?: RequestOptions<P, "get">,
	): AsyncGenerator<Rows<ResponseOf<P, "get">>, void, undefined>;
	/** Starts a run, or resumes a paused one, and returns without waiting for its end. */
	startRun(run: StartRun, options?: StartOptions): Promise<Run>;
	/** Iterates over the runs that a filter selects, the newest first. */
	runs(filter?: RunFilter, options?: { signal?: AbortSignal }): AsyncGenerator<Run, void, undefined>;
	/**
	 * Iterates over the events of a run until it ends or pauses. It connects again if the connection is
	 * lost, and yields each event once.
	 */
	events(run: string, options?: EventOptions): AsyncGenerator<Event, void, undefined>;
	/** Starts a run, or resumes a paused one, and iterates over its events. */
	stream(run: StartRun, options?: StartOptions & EventOptions): AsyncGenerator<Event, void, undefined>;
}
