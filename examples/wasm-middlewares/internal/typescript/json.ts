// Reads JSON losslessly. JSON.parse rounds numbers, and keeps only the last value of a duplicate
// key, which can hide the others.

export type Json = string | boolean | null | Literal | Json[] | Map<string, Json>;

/** A number as it is spelled in the text. */
export class Literal {
	constructor(readonly text: string) {}
}

const maxDepth = 64;

/**
 * Reads one value, or throws an Error that describes the problem. Duplicate keys in an object are an error unless
 * twice is true.
 */
export function parseJSON(text: string, { twice = false } = {}): Json {
	let i = 0;

	const take = (pattern: RegExp): string | undefined => {
		pattern.lastIndex = i;
		const found = pattern.exec(text)?.[0];
		i += found?.length ?? 0;
		return found;
	};
	const next = (mark: string) => {
		take(space);
		if (!text.startsWith(mark, i)) return false;
		i += mark.length;
		return true;
	};
	const fail = (what: string) => new Error(`JSON at ${i}: ${what}`);

	const items = (end: string, depth: number, item: () => void) => {
		if (depth >= maxDepth) throw fail(`nested deeper than ${maxDepth} levels`);
		if (next(end)) return;
		do item(); while (next(","));
		if (!next(end)) throw fail(`want , or ${end}`);
	};
	const string = (): string => {
		take(space);
		const quoted = take(quotedString);
		if (quoted === undefined) throw fail("want a string");
		const value = JSON.parse(quoted) as string;
		if (!value.isWellFormed()) throw fail("half of a surrogate pair");
		return value;
	};
	const value = (depth: number): Json => {
		if (next("{")) {
			const object = new Map<string, Json>();
			items("}", depth, () => {
				const key = string();
				if (object.has(key) && !twice) throw fail(`key ${JSON.stringify(key)} is duplicated`);
				if (!next(":")) throw fail("want : behind a key");
				object.set(key, value(depth + 1));
			});
			return object;
		}
		if (next("[")) {
			const list: Json[] = [];
			items("]", depth, () => list.push(value(depth + 1)));
			return list;
		}
		if (text[i] === '"') return string();
		const word = take(/true|false|null/y);
		if (word !== undefined) return JSON.parse(word) as boolean | null;
		const number = take(/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y);
		if (number === undefined) throw fail("want a value");
		return new Literal(number);
	};

	const all = value(0);
	take(space);
	if (i < text.length) throw fail("something follows the value");
	return all;
}

const space = /[ \t\n\r]*/y;
const quotedString = /"(?:[^"\\\0-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;

/** Writes a value that parseJSON returned, or one that replaces it. */
export function writeJSON(value: Json): string {
	if (value instanceof Literal) return value.text;
	if (value instanceof Map) return `{${[...value].map(([key, item]) => `${JSON.stringify(key)}:${writeJSON(item)}`).join(",")}}`;
	if (Array.isArray(value)) return `[${value.map(writeJSON).join(",")}]`;
	return JSON.stringify(value);
}
