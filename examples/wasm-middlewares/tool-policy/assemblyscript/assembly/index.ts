// Decides which tools may be called with which arguments. It is a gate: it judges the exact bytes
// that the tool would receive, after all other modules.
//
// Unlike the Go version it does not decode disguised values: base64, escapes, JSON inside strings,
// look-alike letters. Patterns are those of pattern.ts.
import {
	ConfigureAnswer, ConfigureInput, Description, DescribeInput, Failure, GateToolAnswer, GateToolInput, Kind, Tree, allow, ask, decode, deny,
	describeAs, hook, invalid, parse, quote,
} from "../../../../../guest-sdk/assemblyscript/assembly";
import { number } from "./number";
import { Pattern } from "./pattern";

const SCHEMA =
	'{"type":"object","additionalProperties":false,"properties":{' +
	'"rules":{"type":"array","description":"the strictest of those that match a call counts","items":{"type":"object","additionalProperties":false,"properties":{' +
	'"tools":{"type":"array","items":{"type":"string"},"description":"names of tools; * matches any characters"},' +
	'"arguments":{"type":"array","description":"all of them must hold","items":{"type":"object","additionalProperties":false,"properties":{' +
	'"path":{"type":"string","description":"keys separated by dots, * for any key or item"},' +
	'"pattern":{"type":"string","description":"a regular expression that must match somewhere in the value"}}}},' +
	'"action":{"type":"string","description":"allow, ask or deny"},' +
	'"message":{"type":"string","description":"the message about a call that this rule denies, for the model, or that it asks about, for the person"}}}},' +
	'"default":{"type":"string","description":"what becomes of a call that no rule matches: allow, ask or deny"}}}';

export function describe(len: i32): i32 {
	return hook<DescribeInput, Description>(len, (_, answer) => {
		describeAs(answer, "tool-policy", "1.1.0", "Allows, denies and asks about tool calls by tool and arguments, as they are spelled.");
		answer.messages = "none";
		answer.config_schema = SCHEMA;
		return null;
	});
}

const ACTIONS = ["allow", "ask", "deny"]; // later ones are stricter

// A Condition is a pattern for the values at a path in a call's arguments.
class Condition {
	constructor(public keys: string[], public pattern: Pattern) {}
}

// A rule matches a call of one of its tools whose arguments meet all its conditions.
class Rule {
	tools: string[] = [];
	conditions: Condition[] = [];
	action: i32 = 0;
	message: string = "";

	// read parses a rule, or returns a configuration error.
	read(value: Tree, at: string): Failure | null {
		if (value.kind != Kind.Object) return wrong(at + ": want an object");
		const action = value.textOf("action", "");
		this.action = ACTIONS.indexOf(action);
		if (this.action < 0) return wrong(at + ".action: " + quote(action) + " is not one of allow, ask, deny");
		this.tools = value.textsOf("tools");
		if (this.tools.length == 0) return wrong(at + ".tools: name at least one tool; * is all of them");
		const empty = this.tools.indexOf("");
		if (empty >= 0) return wrong(`${at}.tools[${empty}]: a tool's name is never empty; * is all of them`);
		this.message = value.textOf("message", "");
		const list = value.get("arguments");
		if (list !== null) {
			for (let i = 0; i < list.items.length; i++) {
				const failure = this.add(list.items[i], `${at}.arguments[${i}]`);
				if (failure !== null) return failure;
			}
		}
		return null;
	}

	private add(value: Tree, at: string): Failure | null {
		if (value.kind != Kind.Object) return wrong(at + ": want an object");
		const path = value.textOf("path", ""), text = value.textOf("pattern", "");
		const keys = path.length > 0 ? path.split(".") : [];
		if (keys.includes("")) return wrong(at + ".path: " + quote(path) + " has an empty key; want keys separated by single dots");
		if (text.length == 0) return wrong(at + ".pattern: want a pattern for the value; . matches any value that is not empty");
		const pattern = new Pattern(text);
		if (pattern.wrong.length > 0) return wrong(at + ".pattern: " + pattern.wrong);
		this.conditions.push(new Condition(keys, pattern));
		return null;
	}

	// matches reports whether the rule applies to a call. A rule that denies or asks applies if any
	// value matches, so one good value does not hide a bad one. A rule that allows applies only if
	// all values match.
	matches(tool: string, args: Tree): bool {
		let about = false;
		for (let i = 0; i < this.tools.length && !about; i++) about = named(tool, this.tools[i]);
		for (let i = 0; i < this.conditions.length && about; i++) {
			const c = this.conditions[i], values: string[] = [];
			valuesAt(args, c.keys, 0, values);
			let matching = 0;
			for (let k = 0; k < values.length; k++) if (c.pattern.matches(values[k])) matching++;
			about = matching > 0 && (this.action > 0 || matching == values.length);
		}
		return about;
	}
}

// State that configure computes is part of the module's memory image.
let rules: Rule[] = [];
let otherwise: i32 = 0;

function wrong(text: string): Failure {
	return invalid("config: " + text);
}

export function configure(len: i32): i32 {
	return hook<ConfigureInput, ConfigureAnswer>(len, (input, _) => {
		const config = parse(input.config);
		if (config === null) return null;
		const action = config.textOf("default", "allow");
		otherwise = ACTIONS.indexOf(action);
		if (otherwise < 0) return wrong("default: " + quote(action) + " is not one of allow, ask, deny");
		rules = [];
		const list = config.get("rules");
		for (let i = 0; list !== null && i < list.items.length; i++) {
			const rule = new Rule(), at = `rules[${i}]`;
			const failure = rule.read(list.items[i], at);
			if (failure !== null) return failure;
			if (rule.action == 0 && otherwise == 0)
				return wrong(at + ".action: allow has no effect if the default is allow; set default to deny or ask");
			rules.push(rule);
		}
		return null;
	});
}

// Applies the strictest matching rule, or the default if none matches.
export function gate_tool(len: i32): i32 {
	return hook<GateToolInput, GateToolAnswer>(len, (input, answer) => {
		const tool = input.call.name, text = input.call.arguments, args = new Tree();
		let unreadable = decode(text.length > 0 ? text : "{}", args);
		if (unreadable.length == 0 && args.kind != Kind.Object) unreadable = "want an object";
		if (unreadable.length > 0) return deny(answer, `The policy cannot read the arguments of ${tool}: ${unreadable}`);
		let by = -1;
		for (let i = 0; i < rules.length; i++)
			if ((by < 0 || rules[i].action > rules[by].action) && rules[i].matches(tool, args)) by = i;
		const action = by < 0 ? otherwise : rules[by].action;
		if (action == 0) return allow(answer);
		let message = by < 0 ? "" : rules[by].message;
		if (action == 1) {
			if (message.length == 0) message = `May ${tool} be called with these arguments?`;
			return ask(answer, message, `{"rule":${by}}`);
		}
		if (message.length == 0)
			message = by < 0 ? `The policy does not allow this call of ${tool}.` : `The policy does not allow calls of ${tool} with these arguments.`;
		return deny(answer, message);
	});
}

// named reports whether a name matches a pattern. In a pattern, * matches any sequence of
// characters, including none.
function named(name: string, pattern: string): bool {
	const parts = pattern.split("*"), last = parts.length - 1;
	if (last == 0) return name == pattern;
	if (!name.startsWith(parts[0])) return false;
	let at = parts[0].length;
	for (let i = 1; i < last; i++) {
		const found = name.indexOf(parts[i], at);
		if (found < 0) return false;
		at = found + parts[i].length;
	}
	return name.length - at >= parts[last].length && name.endsWith(parts[last]);
}

// valuesAt appends the values at a path, as texts. Keys are compared case-insensitively, because
// some tools read "Path" as "path".
function valuesAt(value: Tree, keys: string[], depth: i32, out: string[]): void {
	const any = depth >= keys.length || keys[depth] == "*";
	const key = any ? "" : keys[depth].toLowerCase();
	switch (value.kind) {
		case Kind.Object:
			for (let i = 0; i < value.items.length; i++)
				if (any || value.keys[i].toLowerCase() == key) valuesAt(value.items[i], keys, depth + 1, out);
			return;
		case Kind.List:
			for (let i = 0; i < value.items.length; i++) if (any || i.toString() == key) valuesAt(value.items[i], keys, depth + 1, out);
			return;
		default:
			if (depth < keys.length) return;
			out.push(value.kind == Kind.Number ? number(value.text) : value.kind == Kind.Null ? "null" : value.text);
	}
}
