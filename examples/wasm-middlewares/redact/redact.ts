// Hides personal data: e-mail addresses, card numbers, IP addresses, IBANs and custom patterns. It
// changes the messages that a run begins with, requests to the model, tools' results, and the
// model's answers, even where a streamed chunk ends in the middle of an address.
import { defineMiddleware, HookError } from "@agent-runner/middleware";
import type { Chunk, Content, Context, Message } from "@agent-runner/middleware";

import { Literal, parseJSON, writeJSON } from "../internal/typescript/json";
import type { Json } from "../internal/typescript/json";
import { compile } from "../internal/typescript/pattern";
import { hmac } from "../internal/typescript/sha256";
import { card, email, iban, ip } from "./detectors";
import type { Detector } from "./detectors";

interface Config {
	detect?: string[];
	patterns?: { name?: string; pattern?: string }[];
	strategy?: string;
	strategies?: Record<string, string>;
	salt?: string;
	input?: boolean;
	output?: boolean;
	tool_results?: boolean;
	tool_arguments?: boolean;
}

// A Kind is a kind of data to hide, and its replacement.
interface Kind {
	name: string;
	detector: Detector;
	replace(match: string): string;
}

const builtIn: Record<string, Detector> = { email, credit_card: card, ip, iban };

let kinds: Kind[] = [];

const text = (description: string) => ({ type: "string", description });
const flag = (description: string) => ({ type: "boolean", description });

export default defineMiddleware<Config>({
	name: "redact",
	version: "1.1.0",
	description: "Hides e-mail addresses, card numbers, IP addresses, IBANs and patterns of one's own.",
	configSchema: {
		type: "object",
		additionalProperties: false,
		properties: {
			detect: { type: "array", items: { type: "string" }, description: "which of email, credit_card, ip, iban to look for" },
			patterns: {
				type: "array",
				description: "what else to look for",
				items: {
					type: "object",
					additionalProperties: false,
					properties: { name: text("of the kind: lower-case letters, digits and _"), pattern: text("a regular expression (RE2)") },
				},
			},
			strategy: text("what stands in the place of a find: redact, mask or hash"),
			strategies: { type: "object", additionalProperties: { type: "string" }, description: "another strategy for some kinds, by their names" },
			salt: text("the key of hashes: without it, short values can be guessed"),
			input: flag("hide in the user's messages, in requests and in the run's state"),
			output: flag("hide in the model's answers"),
			tool_results: flag("hide in what tools answer"),
			tool_arguments: flag("hide in the arguments that the model calls tools with"),
		},
	},

	configure(_, { config }) {
		kinds = [];
		for (const [i, name] of (config.detect ?? Object.keys(builtIn)).entries()) {
			if (!Object.hasOwn(builtIn, name)) {
				throw invalid(`detect[${i}]: ${JSON.stringify(name)} is not one of email, credit_card, ip, iban; patterns takes others`);
			}
			addKind(config, `detect[${i}]`, name, builtIn[name]!);
		}
		for (const [i, { name = "", pattern = "" }] of (config.patterns ?? []).entries()) {
			if (!/^[a-z][a-z0-9_]{0,31}$/.test(name) || Object.hasOwn(builtIn, name)) {
				throw invalid(`patterns[${i}].name: want lower-case letters, digits and _, and none of email, credit_card, ip, iban`);
			}
			addKind(config, `patterns[${i}]`, name, ownPattern(pattern, `patterns[${i}].pattern`));
		}
		for (const name of Object.keys(config.strategies ?? {})) {
			if (!kinds.some((k) => k.name === name)) throw invalid(`strategies.${name}: no such kind is looked for`);
		}
	},

	// Changes the run's state, so that the run is stored without the data.
	beforeAgent(input, ctx) {
		const found = new Finds();
		const messages = input.messages.rewrite((m) => hidden(m, ctx.config, found));
		found.tell(ctx, "input");
		return messages && { messages };
	},

	// Processes messages that other modules have added.
	beforeModel({ request }, ctx) {
		const found = new Finds();
		const messages = request.messages.rewrite((m) => hidden(m, ctx.config, found));
		found.tell(ctx, "request");
		return messages && { request: { messages } };
	},

	// Releases text that cannot become part of a match any more. Held text is a run-local value,
	// because the host may discard the module's memory before the next chunk.
	onChunk({ chunks, stream = 0, final }, ctx) {
		const { config } = ctx;
		const key = `stream/${stream}`;
		const texts = ctx.local.get<Held[]>(key) ?? [];
		const there = texts.length > 0;
		const [output, results] = [new Finds(), new Finds()];
		const ofResult = (c: object) => "call_id" in c && c.call_id !== undefined && c.call_id !== "";
		const hides = (c: Chunk) => (ofResult(c) || c.kind === "tool_result" ? config.tool_results : config.output) ?? true;
		const out: Chunk[] = [];
		for (const c of chunks) {
			const found = ofResult(c) ? results : output;
			if (c.kind === "part") {
				out.push(hides(c) && c.part.text ? { ...c, part: { ...c.part, text: all(c.part.text, found) } } : c);
			} else if (c.kind === "tool_call") {
				if (!config.tool_arguments) {
					out.push(c);
					continue;
				}
				const args = next(heldOf(texts, c.kind, c.index, undefined), c.arguments, false, found);
				if (args !== "" || c.arguments === "" || c.id || c.name) out.push({ ...c, arguments: args });
			} else if (!hides(c)) {
				out.push(c);
			} else {
				const shown = next(heldOf(texts, c.kind, undefined, c.kind === "tool_result" ? c.call_id : undefined), c.text, false, found);
				if (shown !== "" || c.text === "") out.push({ ...c, text: shown });
			}
		}
		for (const h of final ? texts : []) {
			const rest = next(h, "", true, h.kind === "tool_result" ? results : output);
			if (rest === "") continue;
			if (h.kind === "tool_call") out.push({ kind: h.kind, index: h.index ?? 0, arguments: rest });
			else if (h.kind === "tool_result") out.push({ kind: h.kind, ...(h.callId && { call_id: h.callId }), text: rest });
			else out.push({ kind: h.kind, text: rest });
		}
		if (!final && texts.length > 0) ctx.local.set(key, texts);
		if (final && there) ctx.local.delete(key);
		output.tell(ctx, "output");
		results.tell(ctx, "tool_result");
		return { chunks: out };
	},

	// Processes an answer that did not pass through onChunk, because a module made it.
	afterModelRewriteState({ messages }, ctx) {
		const last = messages.at(-1);
		const found = new Finds();
		const changed = last && hidden(last, ctx.config, found);
		found.tell(ctx, "output");
		return changed && { messages: messages.set(messages.length - 1, changed) };
	},

	// Processes the decoded arguments, where escapes may have hidden data from onChunk.
	beforeTool({ call }, ctx) {
		if (!ctx.config.tool_arguments || call.arguments === "") return;
		const found = new Finds();
		const args = inside(parseJSON(call.arguments), found);
		if (found.none) return;
		found.tell(ctx, "tool_arguments");
		return { arguments: writeJSON(args) };
	},

	afterTool({ result, error }, ctx) {
		if (ctx.config.tool_results === false) return;
		const found = new Finds();
		const answer = {
			...(result && { result: { ...result, content: inContent(result.content, found) } }),
			...(error && { error: { ...error, message: all(error.message, found) } }),
		};
		found.tell(ctx, "tool_result");
		return found.none ? undefined : answer;
	},

	// Processes a final answer that another module has changed.
	afterAgent({ final }, ctx) {
		const found = new Finds();
		const changed = final && hidden(final, ctx.config, found);
		found.tell(ctx, "output");
		return changed && { final: changed };
	},
});

const invalid = (what: string) => new HookError(`config: ${what}`, "invalid");

function addKind(config: Config, at: string, name: string, detector: Detector) {
	if (kinds.some((k) => k.name === name)) throw invalid(`${at}: ${name} is duplicated`);
	const own = Object.hasOwn(config.strategies ?? {}, name);
	const strategy = (own ? config.strategies![name] : config.strategy) ?? "redact";
	const [label, number] = [name.toUpperCase(), name === "credit_card" || name === "iban"];
	const canonical = (match: string) => (number ? match.replace(/[ -]/g, "") : match).toLowerCase();
	const replace = {
		redact: () => `[REDACTED_${label}]`,
		mask: (match: string) => mask(match, number ? 4 : 0),
		hash: (match: string) => `[${label}_${hmac(config.salt ?? "", canonical(match)).slice(0, 12)}]`,
	}[strategy];
	if (!replace) throw invalid(`${own ? `strategies.${name}` : "strategy"}: ${JSON.stringify(strategy)} is not one of redact, mask, hash`);
	kinds.push({ name, detector, replace });
}

// mask replaces letters and digits by asterisks, except the last keep of them.
function mask(match: string, keep: number): string {
	const plain = /[\p{L}\p{Nd}]/gu;
	let left = match.match(plain)?.length ?? 0;
	return match.replace(plain, (c) => (left-- > keep ? "*" : c));
}

function ownPattern(source: string, at: string): Detector {
	if (source === "") throw invalid(`${at}: say what to look for`);
	try {
		const pattern = compile(source);
		if (pattern.test("")) throw new Error("it matches the empty text, and so everything");
		return {
			// A match that began before from exceeded the limit of held text.
			find: (text, from) => pattern.ranges(text).map(([a, b]): [number, number] => [Math.max(a, from), b]).filter(([a, b]) => a < b),
			open: (text, from) => pattern.open(text, Math.max(from, text.length - maxTail)),
		};
	} catch (e) {
		throw invalid(`${at}: ${(e as Error).message}`);
	}
}

// maxTail is the maximum length of held text in a stream. The built-in kinds need 320 characters;
// only custom patterns can need more.
const maxTail = 1024;

// Finds counts the matches by kind.
class Finds {
	private counts = new Map<string, number>();

	get none() {
		return this.counts.size === 0;
	}

	add(name: string) {
		this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
	}

	// tell emits an event with the number of matches of each kind. The event does not contain the
	// data.
	tell(ctx: Context, where: string) {
		if (!this.none) ctx.emit("redacted", { in: where, found: Object.fromEntries(this.counts) });
	}
}

// A Held is the held text of one text of a stream: the answer, the reasoning, the arguments of a
// call, or a tool's result.
interface Held {
	kind: "text" | "reasoning" | "tool_call" | "tool_result";
	index?: number | undefined;
	callId?: string | undefined;
	before: string; // the character before text
	text: string;
	inside?: boolean; // for JSON: whether text begins in a string
	escaped?: boolean; // for JSON: whether it begins after a backslash
}

function heldOf(texts: Held[], kind: Held["kind"], index: number | undefined, callId: string | undefined): Held {
	const there = texts.find((h) => h.kind === kind && h.index === index && h.callId === callId);
	const held = there ?? { kind, index, callId, before: "", text: "" };
	if (!there) texts.push(held);
	return held;
}

// all redacts a complete text.
const all = (text: string, found: Finds) => next({ kind: "text", before: "", text: "" }, text, true, found);

// next appends a piece to the held text and returns the text to release: everything before the
// first possible match that is still incomplete, with complete matches replaced. With the last
// piece it returns everything.
function next(held: Held, piece: string, last: boolean, found: Finds): string {
	const [text, from] = [held.before + held.text + piece, held.before.length];
	// In JSON a match must not begin within an escape.
	const view = held.kind === "tool_call" ? unescaped(text, from, last) : { text, original: (i: number) => i };
	const spans = find(view.text, from).map((s) => ({ ...s, from: view.original(s.from), to: view.original(s.to) }));
	const open = Math.min(view.text.length, ...kinds.map((k) => k.detector.open(view.text, from)));
	const cut = last ? text.length : cutOf(text, view.original(open), spans);
	let [out, at] = ["", from];
	for (const s of spans.filter((s) => s.from < cut)) {
		out += pass(held, text.slice(at, s.from)) + quoted(held, s.kind.replace(text.slice(s.from, s.to)));
		pass(held, text.slice(s.from, s.to));
		found.add(s.kind.name);
		at = s.to;
	}
	if (at < cut) out += pass(held, text.slice(at, cut));
	held.before = text.slice(Math.max(cut - 1, 0), cut).toWellFormed();
	held.text = text.slice(cut);
	return out;
}

interface Span {
	from: number;
	to: number;
	kind: Kind;
}

// find returns the matches of all kinds, merged where they overlap.
function find(text: string, from: number): Span[] {
	const found = kinds.flatMap((kind) => kind.detector.find(text, from).map(([from, to]) => ({ from, to, kind })));
	const apart: Span[] = [];
	for (const s of found.sort((a, b) => a.from - b.from)) {
		const last = apart.at(-1);
		if (last && s.from < last.to) last.to = Math.max(last.to, s.to);
		else apart.push(s);
	}
	return apart;
}

// cutOf returns the end of the text that more text cannot change. It is never within a match.
function cutOf(text: string, open: number, spans: Span[]): number {
	const across = (cut: number) => spans.find((s) => s.from < cut && cut < s.to);
	const cut = across(open)?.from ?? open;
	let least = text.length - maxTail;
	if (least > 0 && text.codePointAt(least - 1)! > 0xffff) least++; // it is within a character
	return cut >= least ? cut : across(least)?.to ?? least;
}

// unescaped decodes the escapes of a JSON text, and maps each character to its index in the
// original. It ignores an incomplete escape at the end, unless this is the last piece.
function unescaped(text: string, from: number, last: boolean) {
	const begins: number[] = [];
	let [out, at] = ["", 0];
	while (at < text.length) {
		let [char, size] = [text[at]!, 1];
		if (at >= from && char === "\\") {
			const rest = text.slice(at + 1, at + 6);
			size = rest[0] === "u" ? 6 : 2;
			if (at + size > text.length && !last) break;
			char = rest[0] === "u" ? String.fromCharCode(Number.parseInt(rest.slice(1), 16) || 0xfffd) : "nrtbf".includes(rest[0] ?? "") ? " " : rest[0] ?? "\\";
		}
		begins.push(at);
		out += char;
		at += size;
	}
	begins.push(Math.min(at, text.length));
	return { text: out, original: (i: number) => begins[i]! };
}

// pass tracks strings in a JSON text, and returns the text.
function pass(held: Held, text: string): string {
	for (const c of held.kind === "tool_call" ? text : "") {
		if (held.escaped) held.escaped = false;
		else if (held.inside && c === "\\") held.escaped = true;
		else if (c === '"') held.inside = !held.inside;
	}
	return text;
}

// quoted makes a replacement a string if it replaces a number.
const quoted = (held: Held, text: string) => (held.kind === "tool_call" && !held.inside ? `"${text}"` : text);

// hidden returns a redacted message, or undefined if nothing changes.
function hidden(m: Message, config: Config, found: Finds): Message | undefined {
	const hides = { user: config.input, tool: config.tool_results, assistant: config.output, system: false, developer: false }[m.role] ?? true;
	const own = new Finds();
	const count = { add: (name: string) => (own.add(name), found.add(name)) } as Finds;
	const changed = {
		...m,
		...(hides && { content: inContent(m.content ?? null, count) }),
		...(hides && m.role === "assistant" && m.reasoning_content && { reasoning_content: all(m.reasoning_content, count) }),
		...(config.tool_arguments && m.tool_calls && {
			tool_calls: m.tool_calls.map((c) => ({
				...c,
				function: { ...c.function, arguments: next({ kind: "tool_call", before: "", text: "" }, c.function.arguments, true, count) },
			})),
		}),
	};
	return own.none ? undefined : changed;
}

function inContent(content: Content, found: Finds): Content {
	if (typeof content === "string") return all(content, found);
	return content && content.map((p) => (p.text ? { ...p, text: all(p.text, found) } : p));
}

// inside redacts all strings and numbers of a JSON value.
function inside(value: Json, found: Finds): Json {
	if (typeof value === "string") return all(value, found);
	if (value instanceof Literal) {
		const text = all(value.text, found);
		return text === value.text ? value : text;
	}
	if (Array.isArray(value)) return value.map((item) => inside(item, found));
	if (value instanceof Map) return new Map([...value].map(([key, item]) => [key, inside(item, found)]));
	return value;
}
