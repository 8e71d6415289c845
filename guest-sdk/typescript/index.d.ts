/// <reference path="./globals.d.ts" />
import type {
	CallPatch, Chunk, Code, Description, HTTPRequest, HTTPResponse, HookTypes, ModelRequest, ModelResponse, RequestPatch, Result, Run,
	GateToolAnswer, Control, Content,
} from "./abi.js";

export type * from "./abi.js";

/** A middleware: an object with hooks, each with the input of the ABI and a context. */
export type Middleware<Config = unknown> = About & { readonly [Hook in keyof HookTypes]?: HookFunction<Hook, Config> };

/** The description of a middleware. All fields are optional. */
export interface About {
	readonly name?: string;
	readonly version?: string;
	readonly description?: string;
	/** Hooks and features that the middleware needs. A host without one of them rejects it. */
	readonly requires?: readonly string[];
	/** lazy, the default, fetches messages when they are read; full includes all messages in each input; none includes none. */
	readonly messages?: "lazy" | "full" | "none";
	/** The types of events for observe. Defaults to all but chunks. */
	readonly events?: Description["events"];
	/** Holds back the chunks of a wrapped model call until the wrapper returns. */
	readonly holdStream?: boolean;
	/** Asks for the labels of messages and results. */
	readonly labels?: boolean;
	/** A JSON Schema of the configuration. The host validates the configuration before configure. */
	readonly configSchema?: object;
}

/** A hook returns an answer or nothing. Absent fields leave values unchanged. */
export type HookFunction<Hook extends keyof HookTypes, Config> = (
	input: HookTypes[Hook]["input"],
	context: ContextOf<Hook, Config>,
) => Answer<Hook> | Promise<Answer<Hook>>;

export type Answer<Hook extends keyof HookTypes> = HookTypes[Hook]["answer"] | Reply<Hook> | undefined | void;

/**
 * A hook around a model call can return the response itself, and one that wraps or answers a tool call the result:
 * return ctx.next().
 */
export type Reply<Hook extends keyof HookTypes> = Hook extends "wrapModel" ? ModelResponse
	: Hook extends "wrapToolCall" | "callTool" ? Result
	: never;

export type ContextOf<Hook extends keyof HookTypes, Config> = Hook extends "wrapModel" ? WrapContext<Config, RequestPatch, ModelResponse>
	: Hook extends "wrapToolCall" ? WrapContext<Config, CallPatch, Result>
	: Hook extends "callTool" ? Context<Config> & { send(chunks: readonly Chunk[]): void }
	: Context<Config>;

/**
 * The host's functions for a hook. Calls are synchronous, so awaiting them has no effect. A failed call throws a
 * HookError.
 */
export interface Context<Config = unknown> {
	readonly hook: string;
	/** The name of the middleware's entry in the chain. */
	readonly entry: string;
	readonly run: Run;
	/** The configuration, as a frozen object. */
	readonly config: Config;

	/** Values of the entry that persist for the run, including pauses. Memory may be lost between hooks. */
	readonly local: Values;
	/** Durable values of the tenant and entry. Needs the grant store. */
	readonly store: Values;
	readonly log: Log;

	/** Emits a custom event. */
	emit(name: string, data?: unknown): void;
	/** Makes a model call. Needs the grant model. */
	model(request: RequestPatch): ModelResponse;
	/** Calls one of the agent's tools. Needs the grant tool:NAME. */
	tool(name: string, args?: object | string): Result;
	/**
	 * Sends an HTTP request. Needs the grant http:HOST. The host replaces {{secret:NAME}} in it.
	 * Any status is a response; a missing response throws a HookError.
	 */
	http(request: HTTPRequest): HTTPResponse;

	/** return ctx.stop(…) ends the run. No other hook can prevent that. */
	stop(reason: string, code?: string): Control;
	/** return ctx.interrupt(…) pauses the run until the interrupt is answered. */
	interrupt(reason: string, payload?: unknown): Control;
}

/** The context of a hook around a model or tool call. */
export interface WrapContext<Config, Patch, Reply> extends Context<Config> {
	/** Continues the wrapped call with a patch of its request. */
	next(patch?: Patch): Reply;
	/** Continues the call and returns its chunks as a stream. The chunks that the hook sends are its answer. */
	nextStream(patch?: Patch): Stream<Reply>;
	/** Sends chunks to the caller. */
	send(chunks: readonly Chunk[]): void;
}

export interface Stream<Reply> {
	/** Returns the available chunks, or undefined at the end. */
	recv(): readonly Chunk[] | undefined;
	[Symbol.iterator](): IterableIterator<readonly Chunk[]>;
	/** The model's response, after the end of the stream. */
	readonly response: Reply extends ModelResponse ? Reply | undefined : undefined;
	/** The tool's result, after the end of the stream. */
	readonly result: Reply extends Result ? Reply | undefined : undefined;
}

export interface Values {
	get<T = unknown>(key: string): T | undefined;
	/** Returns the value and its version, which is 0 for a missing value. */
	read<T = unknown>(key: string): { value: T | undefined; version: number };
	/** Sets a value. If options.version is not the value's version, it throws a HookError with code conflict. */
	set(key: string, value: unknown, options?: {
		version?: number;
		/** Time to live in seconds, for durable values. */
		ttl?: number;
	}): number | undefined;
	delete(key: string): void;
	/** Adds delta, by default 1, to a counter and returns its new value. */
	add(key: string, delta?: number): number;
}

export interface Log {
	debug(...values: unknown[]): void;
	info(...values: unknown[]): void;
	warn(...values: unknown[]): void;
	error(...values: unknown[]): void;
}

/** Returns the middleware unchanged. It only provides types. */
export function defineMiddleware<Config = unknown>(middleware: Middleware<Config>): Middleware<Config>;

/**
 * An error with a code. If a hook throws it, or another Error that the engine did not create, the hook fails. A
 * TypeError and similar errors of the engine are faults.
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

/** Returns the text of a message or result: the string, or the concatenated parts of type text. */
export function textOf(of: { readonly content?: Content }): string;

export type { ModelRequest };
