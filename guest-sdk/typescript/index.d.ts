import type {
	CallPatch, Chunk, Code, Description, HTTPRequest, HTTPResponse, HookTypes, ModelRequest, ModelResponse, RequestPatch, Result, Run,
	GateToolAnswer, Control, Content,
} from "./abi.js";

export type * from "./abi.js";

/** A middleware: an object with hooks, each with the input of the ABI and a context. */
export type Middleware<Config = unknown> = About & { readonly [Hook in keyof HookTypes]?: HookFunction<Hook, Config> };

/** What a middleware says of itself; each part can be left out. */
export interface About {
	readonly name?: string;
	readonly version?: string;
	readonly description?: string;
	/** Hooks and features without which the middleware is refused. */
	readonly requires?: readonly string[];
	/** The default, lazy, pulls what is looked at; full has all messages in each input, none has none. */
	readonly messages?: "lazy" | "full" | "none";
	/** The types of events for observe; without it all but chunks. */
	readonly events?: Description["events"];
	/** Keeps chunks of a wrapped model call back until the wrapper returns. */
	readonly holdStream?: boolean;
	/** A JSON Schema of the configuration, which is checked before configure. */
	readonly configSchema?: object;
}

/** A hook answers with a patch, or nothing: what it leaves out stays as it is. */
export type HookFunction<Hook extends keyof HookTypes, Config> = (
	input: HookTypes[Hook]["input"],
	context: ContextOf<Hook, Config>,
) => Answer<Hook> | Promise<Answer<Hook>>;

export type Answer<Hook extends keyof HookTypes> = HookTypes[Hook]["answer"] | undefined | void;

export type ContextOf<Hook extends keyof HookTypes, Config> = Hook extends "wrapModel" ? WrapContext<Config, RequestPatch, ModelResponse>
	: Hook extends "wrapToolCall" ? WrapContext<Config, CallPatch, Result>
	: Hook extends "callTool" ? Context<Config> & { send(chunks: readonly Chunk[]): void }
	: Context<Config>;

/**
 * What a hook can do beyond computing. Calls of the host return at once, or once what they wait for is there;
 * to await them changes nothing. One that is refused throws a HookError.
 */
export interface Context<Config = unknown> {
	readonly hook: string;
	/** The middleware's name in the chain. */
	readonly entry: string;
	readonly run: Run;
	/** Frozen. */
	readonly config: Config;

	/** Values of the entry that last as long as the run, also when it pauses. What lies in memory may be gone at the next hook. */
	readonly local: Values;
	/** Durable values of the tenant and entry. With the grant store. */
	readonly store: Values;
	readonly log: Log;

	/** Sends a custom event. */
	emit(name: string, data?: unknown): void;
	/** Makes a model call of the middleware's own. With the grant model. */
	model(request: RequestPatch): ModelResponse;
	/** Calls one of the agent's tools. With the grant tool:NAME. */
	tool(name: string, args?: object | string): Result;
	/**
	 * Sends an HTTP request. With the grant http:HOST. {{secret:NAME}} in it is filled in by the host.
	 * Any status is an answer; no answer is a HookError.
	 */
	http(request: HTTPRequest): HTTPResponse;

	/** return ctx.stop(…) ends the run: nothing catches it. */
	stop(reason: string, code?: string): Control;
	/** return ctx.interrupt(…) pauses the run until somebody answers. */
	interrupt(reason: string, payload?: unknown): Control;
}

/** The context of a hook around a model or tool call. */
export interface WrapContext<Config, Patch, Reply> extends Context<Config> {
	/** Runs what is wrapped, with a patch of its request. */
	next(patch?: Patch): Reply;
	/** Runs it, and gives its chunks as they come; the answer is then what is sent. */
	nextStream(patch?: Patch): Stream<Reply>;
	/** Hands chunks outward. */
	send(chunks: readonly Chunk[]): void;
}

export interface Stream<Reply> {
	/** The chunks that wait, or undefined at the end. */
	recv(): readonly Chunk[] | undefined;
	[Symbol.iterator](): IterableIterator<readonly Chunk[]>;
	/** What the model answered, once the stream has ended. */
	readonly response: Reply extends ModelResponse ? Reply | undefined : undefined;
	/** What the tool gave, once the stream has ended. */
	readonly result: Reply extends Result ? Reply | undefined : undefined;
}

export interface Values {
	get<T = unknown>(key: string): T | undefined;
	/** The value and its version, 0 for a missing one. */
	read<T = unknown>(key: string): { value: T | undefined; version: number };
	/** Sets a value; with a version only if that is still the present one, or throws a HookError with code conflict. */
	set(key: string, value: unknown, options?: {
		version?: number;
		/** Of durable values, in seconds. */
		ttl?: number;
	}): number | undefined;
	delete(key: string): void;
	/** Adds to a counter, 1 if nothing is said, and returns what it is then. */
	add(key: string, delta?: number): number;
}

export interface Log {
	debug(...values: unknown[]): void;
	info(...values: unknown[]): void;
	warn(...values: unknown[]): void;
	error(...values: unknown[]): void;
}

/** Types the hooks of a middleware; gives it back as it is. */
export function defineMiddleware<Config = unknown>(middleware: Middleware<Config>): Middleware<Config>;

/**
 * An error with a code. Thrown by a hook, it fails the hook, as any Error does that the engine did not make;
 * a TypeError and its like are mistakes, and fault.
 */
export class HookError extends Error {
	constructor(message: string, more?: Code | { code?: Code; retryable?: boolean; status?: number; retry_after_ms?: number });
	readonly code: Code;
	readonly retryable?: boolean;
	readonly status?: number;
	readonly retry_after_ms?: number;
}

/** Answers of gateTool. */
export function allow(): GateToolAnswer;
export function deny(message: string): GateToolAnswer;
export function ask(message: string, payload?: unknown): GateToolAnswer;

/** Results of tool calls. */
export function textResult(text: string): Result;
export function errorResult(text: string): Result;

/** The text of a message or result: of a string itself, or of all parts of type text. */
export function textOf(of: { readonly content?: Content }): string;

export type { ModelRequest };
