// Decides which tools may be called with which arguments. It is a gate: it judges the exact bytes
// that the tool would receive, after all other modules.
import { allow, ask, defineMiddleware, deny, HookError } from "@agent-runner/middleware";
import type { GateToolAnswer } from "@agent-runner/middleware";

import { forms } from "../internal/typescript/disguise";
import { Literal, parseJSON } from "../internal/typescript/json";
import type { Json } from "../internal/typescript/json";
import { matchName } from "../internal/typescript/names";
import { compile } from "../internal/typescript/pattern";
import type { Pattern } from "../internal/typescript/pattern";

interface Config {
	rules?: Rule[];
	default?: string;
	decode?: boolean;
}

// A rule matches a call of one of its tools whose arguments meet all its conditions.
interface Rule {
	tools?: string[];
	arguments?: { path?: string; pattern?: string }[];
	action?: string;
	message?: string;
}

// A condition is a pattern for the values at a path in a call's arguments.
interface Condition {
	keys: string[];
	pattern: Pattern;
}

const actions = ["allow", "ask", "deny"]; // later ones are stricter

// The compiled conditions of each rule.
let conditions: Condition[][] = [];

export default defineMiddleware<Config>({
	name: "tool-policy",
	version: "1.1.0",
	description: "Allows, denies and asks about tool calls by tool and arguments.",
	configSchema: {
		type: "object",
		additionalProperties: false,
		properties: {
			rules: {
				type: "array",
				description: "the strictest of those that match a call counts",
				items: {
					type: "object",
					additionalProperties: false,
					properties: {
						tools: { type: "array", items: { type: "string" }, description: "names of tools; * matches any characters" },
						arguments: {
							type: "array",
							description: "all of them must hold",
							items: {
								type: "object",
								additionalProperties: false,
								properties: {
									path: {
										type: "string",
										description: "keys separated by dots, * for any key or item; " +
											"a path that ends at an object or a list means every value in it, no path all values",
									},
									pattern: { type: "string", description: "a regular expression (RE2) that must match somewhere in the value" },
								},
							},
						},
						action: { type: "string", description: "allow, ask or deny" },
						message: { type: "string", description: "the message about a call that this rule denies, for the model, or that it asks about, for the person" },
					},
				},
			},
			default: { type: "string", description: "what becomes of a call that no rule matches: allow, ask or deny" },
			decode: {
				type: "boolean",
				description: "rules that deny or ask also match text that a value hides in base64, escapes, JSON inside a string, or look-alike letters",
			},
		},
	},

	configure(_, { config }) {
		const otherwise = config.default ?? "allow";
		if (!actions.includes(otherwise)) throw invalid(`default: ${JSON.stringify(otherwise)} is not one of allow, ask, deny`);
		conditions = (config.rules ?? []).map((rule, i) => {
			const compiled = compileRule(rule, `rules[${i}]`);
			if (rule.action === "allow" && otherwise === "allow") {
				throw invalid(`rules[${i}].action: allow has no effect if the default is allow; set default to deny or ask`);
			}
			return compiled;
		});
	},

	// Applies the strictest matching rule, or the default if none matches.
	gateTool({ call }, { config }) {
		let args: Json;
		try {
			args = call.arguments === "" ? new Map() : parseJSON(call.arguments);
			if (!(args instanceof Map)) throw new Error("want an object");
		} catch (e) {
			return deny(`The policy cannot read the arguments of ${call.name}: ${(e as Error).message}`);
		}
		let by = -1;
		let strictest: Rule | undefined;
		for (const [i, rule] of (config.rules ?? []).entries()) {
			if (strictest !== undefined && actions.indexOf(rule.action!) <= actions.indexOf(strictest.action!)) continue;
			const matching = matches(rule, conditions[i]!, call.name, args, config.decode ?? true);
			if (matching === undefined) {
				return deny(`The policy cannot check the arguments of ${call.name}: they contain too much encoded text.`);
			}
			if (matching) [strictest, by] = [rule, i];
		}
		return decision(call.name, strictest ?? { action: config.default ?? "allow" }, by);
	},
});

const invalid = (text: string) => new HookError(`config: ${text}`, "invalid");

function compileRule(rule: Rule, at: string): Condition[] {
	if (!actions.includes(rule.action ?? "")) throw invalid(`${at}.action: ${JSON.stringify(rule.action ?? "")} is not one of allow, ask, deny`);
	if (!rule.tools?.length) throw invalid(`${at}.tools: name at least one tool; * is all of them`);
	const empty = rule.tools.indexOf("");
	if (empty >= 0) throw invalid(`${at}.tools[${empty}]: a tool's name is never empty; * is all of them`);
	return (rule.arguments ?? []).map(({ path = "", pattern = "" }, j) => {
		const where = `${at}.arguments[${j}]`;
		const keys = path === "" ? [] : path.split(".");
		if (keys.includes("")) throw invalid(`${where}.path: ${JSON.stringify(path)} has an empty key; want keys separated by single dots`);
		if (pattern === "") throw invalid(`${where}.pattern: want a pattern for the value; . matches any value that is not empty`);
		try {
			return { keys, pattern: compile(pattern) };
		} catch (e) {
			throw invalid(`${where}.pattern: ${(e as Error).message}`);
		}
	});
}

// decision returns the decision for a rule's action. The index of the default is -1.
function decision(tool: string, { action, message }: Rule, by: number): GateToolAnswer {
	if (action === "allow") return allow();
	if (action === "ask") return ask(message || `May ${tool} be called with these arguments?`, { rule: by });
	return deny(message || (by >= 0 ? `The policy does not allow calls of ${tool} with these arguments.` : `The policy does not allow this call of ${tool}.`));
}

// matches reports whether a rule applies to a call. It returns undefined if the arguments contain
// more encoding than can be checked.
function matches(rule: Rule, conditions: Condition[], tool: string, args: Json, decode: boolean): boolean | undefined {
	if (!matchName(rule.tools!, tool)) return false;
	for (const { keys, pattern } of conditions) {
		// A rule that denies or asks applies if any value matches, so one good value does not hide
		// a bad one. A rule that allows applies only if all values match.
		const values = valuesAt(args, keys);
		if (rule.action === "allow") {
			if (values.length === 0 || !values.every((v) => pattern.test(v))) return false;
			continue;
		}
		const read = decode ? values.map((v) => forms(v)?.flatMap((f) => [f, asPath(f), asNumber(f)])) : [values];
		if (read.includes(undefined)) return undefined;
		if (!read.flat().some((v) => pattern.test(v!))) return false;
	}
	return true;
}

// valuesAt returns the values at a path, as texts. Keys are compared case-insensitively, because
// some tools read "Path" as "path".
function valuesAt(value: Json, path: string[]): string[] {
	const [key = "*", ...rest] = path;
	const inside = (name: string, item: Json) => (key === "*" || sameCase(key) === sameCase(name) ? valuesAt(item, rest) : []);
	if (value instanceof Map) return [...value].flatMap(([name, item]) => inside(name, item));
	if (Array.isArray(value)) return value.flatMap((item, i) => (key === "*" || key === String(i) ? valuesAt(item, rest) : []));
	return path.length === 0 ? [text(value)] : [];
}

// sameCase maps characters that differ only in case to the same one.
function sameCase(key: string): string {
	return Array.from(key, (c) => {
		const upper = c.toUpperCase();
		const lower = ([...upper].length === 1 ? upper : c).toLowerCase();
		return [...lower].length === 1 ? lower : c;
	}).join("");
}

// text returns the text of a value for patterns: strings unchanged, other values as in JSON, and
// numbers without exponent and trailing zeros.
const text = (value: string | boolean | null | Literal) => (value instanceof Literal ? number(value.text) : String(value));

// number returns the same spelling for all literals of a number, so that 1e2 does not pass where
// 100 would not. Whole numbers stay exact.
function number(literal: string): string {
	if (!/[.eE]/.test(literal)) return literal === "-0" ? "0" : literal;
	const f = Number(literal);
	const abs = Math.abs(f);
	if (abs === Infinity) return literal; // out of range for tools, too
	if (f === 0) return "0";
	if (abs >= 1e-6 || abs < 1e-9) return String(f);
	const [digits = "", exponent] = abs.toExponential().split("e-"); // String would use an exponent here
	return `${f < 0 ? "-" : ""}0.${"0".repeat(Number(exponent) - 1)}${digits.replace(".", "")}`;
}

// asPath returns the path that a tool opens if it is given a text: up to the first NUL, with
// backslashes replaced by slashes, without trailing dots and spaces in names, and cleaned of . and
// .. elements.
function asPath(text: string): string {
	if (text === "" || !/[/\\\0]|[. ]$/.test(text)) return text;
	const names: string[] = [];
	const whole = text.split("\0")[0]!.replaceAll("\\", "/");
	for (const part of whole.split("/")) {
		const name = part === "." || part === ".." ? part : part.replace(/[. ]+$/, "");
		if (name === "" || name === ".") continue;
		if (name !== ".." || (names.length === 0 ? !whole.startsWith("/") : names.at(-1) === "..")) names.push(name);
		else names.pop();
	}
	return (whole.startsWith("/") ? "/" : "") + names.join("/") || ".";
}

// asNumber returns the number that a tool parses from a text, as number spells it.
function asNumber(text: string): string {
	const m = /^[\t\n\f\r ]*([-+]?)0*([0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,3})?)[\t\n\f\r ]*$/.exec(text);
	return m ? number(m[1]!.replace("+", "") + m[2]!.replaceAll("_", "")) : text;
}
