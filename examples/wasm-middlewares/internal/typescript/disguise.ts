// Reverses encodings that hide a text from a pattern: look-alike and invisible characters, spaced
// letters, escapes, base64, hexadecimal digits and JSON in a string.
import { fold, invisible } from "./fold";
import { parseJSON } from "./json";
import type { Json } from "./json";

const maxDepth = 4; // maximum nesting of disguises
const maxForms = 4096;

/**
 * Returns the text itself and all its other readings, without duplicates. Returns undefined beyond 4 levels of
 * disguise, 4096 forms, or 8 times the text's size plus 64 Ki characters. A caller that must not miss anything should
 * then reject the text.
 */
export function forms(text: string): string[] | undefined {
	const seen = new Set<string>();
	let room = 8 * text.length + (64 << 10);
	let level = [text];
	for (let depth = 0; level.length > 0; depth++) {
		const next: string[] = [];
		for (const t of level) {
			if (seen.has(t) || (t === "" && seen.size > 0)) continue;
			if (room < t.length || seen.size === maxForms) return undefined;
			room -= t.length;
			seen.add(t);
			next.push(fold(t), join(t), unescape(t), ...base64s(t), ...hexes(t), ...jsons(t));
		}
		if (depth === maxDepth) {
			// The remaining readings may all be duplicates.
			if (next.some((t) => t !== "" && !seen.has(t))) return undefined;
			break;
		}
		level = next;
	}
	return [...seen];
}

// join removes separators between single letters: i g n o r e, ig-nore. More than one space between
// words of spaced letters still separates them.
function join(text: string): string {
	const chars = [...text];
	const letter = (i: number) => i >= 0 && i < chars.length && isLetter(chars[i]!);
	const single = (i: number) => letter(i) && !letter(i - 1) && !letter(i + 1);
	return chars.filter((c, i) => {
		if (!letter(i - 1) || letter(i)) return true;
		if ("-._*|~+·•/\\".includes(c) && letter(i + 1)) return false;
		return !(c === " " && single(i - 1) && single(i + 1));
	}).join("");
}

const isLetter = (c: string) => /^[A-Za-z]$/.test(c) || (c >= "\xc0" && c !== "×" && c !== "÷" && !invisible.test(c));

const escapes =
	/(?:%[0-9a-fA-F]{2})+|(?:\\x[0-9a-fA-F]{2})+|(?:\\u[0-9a-fA-F]{4})+|\\u\{[0-9a-fA-F]{1,6}\}|(?:\\[0-3][0-7]{2})+|&#[0-9]{1,7};|&#[xX][0-9a-fA-F]{1,6};|&(?:amp|lt|gt|quot|apos|sol|bsol|period|lowbar|commat|colon|hyphen|dash|nbsp|Tab|NewLine);/g;

const entities: Record<string, string> = {
	amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", sol: "/", bsol: "\\", period: ".", lowbar: "_", commat: "@", colon: ":",
	hyphen: "-", dash: "-", nbsp: " ", Tab: "\t", NewLine: "\n",
};

// shortest rewrites two-byte encodings of ASCII characters as one byte. UTF-8 decoders must reject
// such overlong encodings, but some accept them.
function shortest(b: number[]): number[] {
	const out: number[] = [];
	for (let i = 0; i < b.length; i++) {
		if (b[i]! >> 1 === 0x60 && b[i + 1]! >> 6 === 2) out.push(((b[i]! & 1) << 6) | (b[++i]! & 0x3f));
		else out.push(b[i]!);
	}
	return out;
}

// unescape replaces escapes by their characters.
function unescape(text: string): string {
	return text.replace(escapes, (s) => {
		if (s.startsWith("%")) return utf8(shortest(bytes(s.replaceAll("%", "")))).text;
		if (s.startsWith("\\x")) return utf8(bytes(s.replaceAll("\\x", ""))).text;
		if (/^\\[0-3]/.test(s)) return utf8(s.match(/[0-7]{3}/g)!.map((d) => parseInt(d, 8))).text;
		if (/^&[^#]/.test(s)) return entities[s.slice(1, -1)]!;
		if (s.startsWith("\\u{")) return character(parseInt(s.slice(3), 16));
		if (s.startsWith("\\")) return (JSON.parse(`"${s}"`) as string).toWellFormed(); // joins surrogate pairs
		return character(/x/i.test(s) ? parseInt(s.slice(3), 16) : parseInt(s.slice(2)));
	});
}

const character = (n: number) => (n > 0x10ffff ? "" : String.fromCodePoint(n).toWellFormed());

// base64s decodes base64 in a text: each run of lines as a whole, and each word of it.
function base64s(text: string): string[] {
	const runs = text.match(/[A-Za-z0-9+/_-]{8,}={0,2}(?:[\t\n\f\r ]+[A-Za-z0-9+/_-]{8,}={0,2})*/g) ?? [];
	return runs.flatMap((run) => {
		const words = run.split(/[\t\n\f\r ]+/);
		return [...(words.length > 1 ? [words.join("")] : []), ...words].flatMap(fromBase64);
	});
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function fromBase64(word: string): string[] {
	word = word.replaceAll("=", "").replaceAll("-", "+").replaceAll("_", "/");
	const out: number[] = [];
	let [held, bits] = [0, 0];
	for (const c of word) {
		held = ((held << 6) | alphabet.indexOf(c)) & 0xffff;
		if ((bits += 6) >= 8) out.push((held >> (bits -= 8)) & 0xff);
	}
	return readable(out);
}

// hexes decodes runs of hexadecimal digits in a text.
function hexes(text: string): string[] {
	return (text.match(/(?:[0-9a-fA-F]{2}[ :]?){7,}[0-9a-fA-F]{2}/g) ?? []).flatMap((run) => readable(bytes(run.replace(/[ :]/g, ""))));
}

const bytes = (digits: string) => digits.match(/../g)!.map((d) => parseInt(d, 16));

// readable returns the bytes as a text if they are printable UTF-8 of at least 4 bytes. This drops
// most accidental decodings.
function readable(b: number[]): string[] {
	if (b.length < 4) return [];
	const { text, valid } = utf8(b);
	return valid && [...text].every((c) => printed.test(c) || invisible.test(c)) ? [text] : [];
}

const printed = /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{White_Space}]$/u;

// utf8 decodes bytes, dropping invalid sequences.
function utf8(b: number[]): { text: string; valid: boolean } {
	let [text, valid] = ["", true];
	for (let i = 0; i < b.length;) {
		const first = b[i]!;
		const more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : -1;
		const rest = b.slice(i + 1, i + 1 + Math.max(more, 0));
		const n = rest.reduce((n, c) => (n << 6) | (c & 0x3f), more > 0 ? first & (0x3f >> more) : first);
		const shortest = [0, 0x80, 0x800, 0x10000][more] ?? Infinity;
		if (rest.length < more || rest.some((c) => c >> 6 !== 2) || n < shortest || n > 0x10ffff || (n >= 0xd800 && n < 0xe000)) {
			valid = false;
			i++;
			continue;
		}
		text += String.fromCodePoint(n);
		i += more + 1;
	}
	return { text, valid };
}

// jsons returns the strings of a text that is a JSON value as a whole, including object keys.
function jsons(text: string): string[] {
	if (!/^\s*[{["]/.test(text)) return [];
	const out: string[] = [];
	const walk = (value: Json): void => {
		if (typeof value === "string") out.push(value);
		else if (Array.isArray(value)) value.forEach(walk);
		else if (value instanceof Map) value.forEach((item, key) => (out.push(key), walk(item)));
	};
	try {
		walk(parseJSON(text.trim()));
	} catch {
		return [];
	}
	return out;
}
