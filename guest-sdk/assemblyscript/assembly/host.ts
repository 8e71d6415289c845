// Calls of the host. Each returns a value or the failure that the host reported.

import { Json, Reader, Value, Writer, encode } from "./json";
import { CallPatch, Chunk, Custom, Failure, HTTPRequest, HTTPResponse, LocalValue, Message, ModelReply, Received, RequestPatch, Response, Sent, ToolReply, ToolRequest, ToolResult } from "./types";

@external("agent_middleware_v1", "read") declare function host_read(ptr: usize, cap: i32): i32;
@external("agent_middleware_v1", "write") declare function host_write(ptr: usize, len: i32): void;
@external("agent_middleware_v1", "next") declare function host_next(ptr: usize, len: i32): i32;
@external("agent_middleware_v1", "next_stream") declare function host_next_stream(ptr: usize, len: i32): i32;
@external("agent_middleware_v1", "recv") declare function host_recv(): i32;
@external("agent_middleware_v1", "send") declare function host_send(ptr: usize, len: i32): i32;
@external("agent_middleware_v1", "messages") declare function host_messages(list: i32, from: i32, to: i32): i32;
@external("agent_middleware_v1", "changed") declare function host_changed(list: i32, revision: i64): i32;
@external("agent_middleware_v1", "local_get") declare function host_local_get(key: usize, len: i32): i32;
@external("agent_middleware_v1", "local_set") declare function host_local_set(key: usize, len: i32, value: usize, valueLen: i32, version: i64): i32;
@external("agent_middleware_v1", "local_delete") declare function host_local_delete(key: usize, len: i32): i32;
@external("agent_middleware_v1", "local_add") declare function host_local_add(key: usize, len: i32, delta: i64): i32;
@external("agent_middleware_v1", "store_get") declare function host_store_get(key: usize, len: i32): i32;
@external("agent_middleware_v1", "store_set") declare function host_store_set(key: usize, len: i32, value: usize, valueLen: i32, version: i64, ttl: i64): i32;
@external("agent_middleware_v1", "store_delete") declare function host_store_delete(key: usize, len: i32): i32;
@external("agent_middleware_v1", "store_add") declare function host_store_add(key: usize, len: i32, delta: i64): i32;
@external("agent_middleware_v1", "emit") declare function host_emit(ptr: usize, len: i32): i32;
@external("agent_middleware_v1", "model") declare function host_model(ptr: usize, len: i32): i32;
@external("agent_middleware_v1", "tool") declare function host_tool(ptr: usize, len: i32): i32;
@external("agent_middleware_v1", "http") declare function host_http(ptr: usize, len: i32): i32;
@external("agent_middleware_v1", "log") declare function host_log(level: i32, ptr: usize, len: i32): void;

/** The version with which localSet and storeSet set a value unconditionally. */
export const ALWAYS: i64 = -1;

export enum Level {
	Debug,
	Info,
	Warn,
	Error,
}

/** A value or a failure. Check ok first. */
export class Reply<T> {
	/** The reason why there is no value, or null. */
	failure: Failure | null;
	private it: T | null;

	private constructor(failure: Failure | null, it: T | null) {
		this.failure = failure;
		this.it = it;
	}

	static of<T>(value: T): Reply<T> {
		return new Reply<T>(null, value);
	}

	static failed<T>(failure: Failure): Reply<T> {
		return new Reply<T>(failure, null);
	}

	get ok(): bool {
		return this.failure === null;
	}

	/** The value. Traps if the reply is not ok. */
	get value(): T {
		return this.it!;
	}
}

/** The result of localAdd or storeAdd, or a failure. */
export class Sum {
	constructor(public failure: Failure | null, public value: i64) {}
}

/** A range of UTF-8 bytes. */
class Bytes {
	buffer: ArrayBuffer;
	constructor(text: string) {
		this.buffer = String.UTF8.encode(text);
	}
	get ptr(): usize {
		return changetype<usize>(this.buffer);
	}
	get length(): i32 {
		return this.buffer.byteLength;
	}
}

/** The number of bytes read since the last garbage collection. */
let fresh: i32 = 0;

const COLLECT: i32 = 1 << 18;

/**
 * Collects the garbage of earlier hooks. Call it at the start of a hook, when only global
 * variables refer to values.
 */
export function collect(): void {
	if (fresh < COLLECT) return;
	fresh = 0;
	__collect();
}

/** Reads n pending bytes as a value. Returns an error message, or "". */
export function read(n: i32, into: Value): string {
	const buffer = new ArrayBuffer(n);
	const r = new Reader(changetype<usize>(buffer), host_read(changetype<usize>(buffer), n));
	fresh += n + 512;
	into.read(r);
	r.end();
	return r.wrong;
}

/** Sets the hook's output. */
export function write(value: Value, evenNothing: bool = true): void {
	const w = new Writer();
	value.write(w);
	if (evenNothing || w.length > 2) host_write(w.ptr, w.length);
}

function refused(n: i32): Failure {
	const failure = new Failure();
	return read(-n, failure).length == 0 ? failure : Failure.of("internal", "the host's error cannot be read");
}

function done(n: i32): Failure | null {
	return n >= 0 ? null : refused(n);
}

function reply<T extends Value>(n: i32): Reply<T> {
	if (n < 0) return Reply.failed<T>(refused(n));
	const value = instantiate<T>();
	if (n > 0 && read(n, value).length > 0) return Reply.failed<T>(Failure.of("internal", "the host's reply cannot be read"));
	return Reply.of<T>(value);
}

function response(n: i32): Reply<Response> {
	const got = reply<ModelReply>(n);
	if (!got.ok) return Reply.failed<Response>(got.failure!);
	const it = got.value.response;
	return it !== null ? Reply.of<Response>(it) : Reply.failed<Response>(Failure.of("internal", "the host's reply has no response"));
}

function result(n: i32): Reply<ToolResult> {
	const got = reply<ToolReply>(n);
	if (!got.ok) return Reply.failed<ToolResult>(got.failure!);
	const it = got.value.result;
	return it !== null ? Reply.of<ToolResult>(it) : Reply.failed<ToolResult>(Failure.of("internal", "the host's reply has no result"));
}

function given(value: Value | null): Bytes {
	return new Bytes(value === null ? "" : encode(value));
}

function otherArguments(args: string | null): CallPatch | null {
	if (args === null) return null;
	const patch = new CallPatch();
	patch.arguments = args;
	return patch;
}

/** In wrap_model: continues with a patch of the request, or unchanged if it is null. */
export function nextModel(patch: RequestPatch | null): Reply<Response> {
	const b = given(patch);
	return response(host_next(b.ptr, b.length));
}

/** In wrap_tool_call: continues with other arguments, or unchanged if they are null. */
export function nextTool(args: string | null): Reply<ToolResult> {
	const b = given(otherArguments(args));
	return result(host_next(b.ptr, b.length));
}

/** Like nextModel, but returns at once. recv returns the chunks. */
export function nextModelStream(patch: RequestPatch | null): Failure | null {
	const b = given(patch);
	return done(host_next_stream(b.ptr, b.length));
}

/** Like nextTool, but returns at once. recv returns the chunks. */
export function nextToolStream(args: string | null): Failure | null {
	const b = given(otherArguments(args));
	return done(host_next_stream(b.ptr, b.length));
}

/**
 * Returns the available chunks or, once, the end of the stream. After the end it returns
 * neither; see over.
 */
export function recv(): Reply<Received> {
	return reply<Received>(host_recv());
}

/** Reports whether the stream has ended. */
export function over(got: Received): bool {
	return got.chunks.length == 0 && got.end === null;
}

/** Sends chunks to the caller. What a wrapper or a tool sends is its answer. */
export function send(chunks: Chunk[]): Failure | null {
	if (chunks.length == 0) return null;
	const sent = new Sent();
	sent.chunks = chunks;
	const b = given(sent);
	return done(host_send(b.ptr, b.length));
}

/** Makes a model call. Needs the grant model. The messages must be a whole list. */
export function model(request: RequestPatch): Reply<Response> {
	const b = given(request);
	return response(host_model(b.ptr, b.length));
}

/**
 * Calls one of the agent's tools. Needs the grant tool:NAME. If the tool fails, the result
 * is an error result.
 */
export function tool(name: string, args: string): Reply<ToolResult> {
	const request = new ToolRequest();
	request.name = name;
	request.arguments = args;
	const b = given(request);
	return result(host_tool(b.ptr, b.length));
}

/**
 * Sends an HTTP request. Needs the grant http:HOST. The host replaces {{secret:NAME}} in
 * it. Any status is a response; a missing response is a failure.
 */
export function http(request: HTTPRequest): Reply<HTTPResponse> {
	const b = given(request);
	return reply<HTTPResponse>(host_http(b.ptr, b.length));
}

class MessageList extends Value {
	items: Message[] = [];
	read(r: Reader): void {
		this.items = r.list<Message>();
	}
}

/** See List.at. */
export function messages(list: i32, from: i32, to: i32): Reply<Message[]> {
	const got = reply<MessageList>(host_messages(list, from, to));
	return got.ok ? Reply.of<Message[]>(got.value.items) : Reply.failed<Message[]>(got.failure!);
}

/** See List.changedSince. */
export function changed(list: i32, revision: i64): i32 {
	return host_changed(list, revision);
}

/** Returns a run-local value. A missing value has version 0. */
export function localGet(key: string): Reply<LocalValue> {
	const k = new Bytes(key);
	return reply<LocalValue>(host_local_get(k.ptr, k.length));
}

/** Sets a run-local value if its version is still the given one, or unconditionally with ALWAYS. */
export function localSet(key: string, value: Json, version: i64): Failure | null {
	const k = new Bytes(key), v = new Bytes(value);
	return done(host_local_set(k.ptr, k.length, v.ptr, v.length, version));
}

export function localDelete(key: string): Failure | null {
	const k = new Bytes(key);
	return done(host_local_delete(k.ptr, k.length));
}

class Whole extends Value {
	value: i64 = 0;
	read(r: Reader): void {
		this.value = r.whole();
	}
}

function sum(n: i32): Sum {
	const got = reply<Whole>(n);
	return got.ok ? new Sum(null, got.value.value) : new Sum(got.failure, 0);
}

/** Adds to a counter and returns the new value. */
export function localAdd(key: string, delta: i64): Sum {
	const k = new Bytes(key);
	return sum(host_local_add(k.ptr, k.length, delta));
}

/** Returns a durable value. Needs the grant store. A missing value has version 0. */
export function storeGet(key: string): Reply<LocalValue> {
	const k = new Bytes(key);
	return reply<LocalValue>(host_store_get(k.ptr, k.length));
}

/** Sets a durable value for ttl seconds; 0 means no expiry. */
export function storeSet(key: string, value: Json, version: i64, ttl: i64): Failure | null {
	const k = new Bytes(key), v = new Bytes(value);
	return done(host_store_set(k.ptr, k.length, v.ptr, v.length, version, ttl));
}

export function storeDelete(key: string): Failure | null {
	const k = new Bytes(key);
	return done(host_store_delete(k.ptr, k.length));
}

export function storeAdd(key: string, delta: i64): Sum {
	const k = new Bytes(key);
	return sum(host_store_add(k.ptr, k.length, delta));
}

/** Emits a custom event of the run. */
export function emit(name: string, data: Json): Failure | null {
	const event = new Custom();
	event.name = name;
	event.data = data;
	const b = given(event);
	return done(host_emit(b.ptr, b.length));
}

export function log(level: Level, text: string): void {
	const b = new Bytes(text);
	host_log(level, b.ptr, b.length);
}

/** Called by the compiler's code for programming errors. Writes a log line and ends the hook. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
	log(Level.Error, (message !== null ? message : "abort") + " in " + (file !== null ? file : "?") + `:${line}:${column}`);
	unreachable();
}
