// Undoes what may hide a text from a pattern: look-alike and invisible characters,
// letters that are set apart, escapes, base64, hexadecimal digits and JSON in a
// string.
import { fold, invisible } from "./fold";
import { parseJSON } from "./json";
import type { Json } from "./json";

const maxDepth = 4; // how often one disguise may lie within another
const maxForms = 4096;

/**
 * The text as it is, first, and what else it may be read as, each once; or undefined if there are more than 4 disguises
 * within one another, more than 4096 forms, or more than 8 times the text and 64 Ki characters. Who must not miss
 * anything then refuses.
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
			// What is left may be only another way to the same.
			if (next.some((t) => t !== "" && !seen.has(t))) return undefined;
			break;
		}
		level = next;
	}
	return [...seen];
}

// join puts letters together that are set apart: i g n o r e, ig-nore. Where words of
// single letters are separated by more than one space, they stay words.
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

// shortest writes characters of ASCII in one byte that are written in two: a reader of
// UTF-8 must refuse those, and some do not.
function shortest(b: number[]): number[] {
	const out: number[] = [];
	for (let i = 0; i < b.length; i++) {
		if (b[i]! >> 1 === 0x60 && b[i + 1]! >> 6 === 2) out.push(((b[i]! & 1) << 6) | (b[++i]! & 0x3f));
		else out.push(b[i]!);
	}
	return out;
}

// unescape puts characters in the place of their numbers.
function unescape(text: string): string {
	return text.replace(escapes, (s) => {
		if (s.startsWith("%")) return utf8(shortest(bytes(s.replaceAll("%", "")))).text;
		if (s.startsWith("\\x")) return utf8(bytes(s.replaceAll("\\x", ""))).text;
		if (/^\\[0-3]/.test(s)) return utf8(s.match(/[0-7]{3}/g)!.map((d) => parseInt(d, 8))).text;
		if (/^&[^#]/.test(s)) return entities[s.slice(1, -1)]!;
		if (s.startsWith("\\u{")) return character(parseInt(s.slice(3), 16));
		if (s.startsWith("\\")) return (JSON.parse(`"${s}"`) as string).toWellFormed(); // pairs of surrogates are one
		return character(/x/i.test(s) ? parseInt(s.slice(3), 16) : parseInt(s.slice(2)));
	});
}

const character = (n: number) => (n > 0x10ffff ? "" : String.fromCodePoint(n).toWellFormed());

// base64s are the texts that are written in base64 in a text: of each run of lines,
// which are one text, and of each word.
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

// hexes are the texts that are written in hexadecimal digits in a text.
function hexes(text: string): string[] {
	return (text.match(/(?:[0-9a-fA-F]{2}[ :]?){7,}[0-9a-fA-F]{2}/g) ?? []).flatMap((run) => readable(bytes(run.replace(/[ :]/g, ""))));
}

const bytes = (digits: string) => digits.match(/../g)!.map((d) => parseInt(d, 16));

// readable is what bytes say, if they are a text: most that was decoded by mistake
// is none.
function readable(b: number[]): string[] {
	if (b.length < 4) return [];
	const { text, valid } = utf8(b);
	return valid && [...text].every((c) => printed.test(c) || invisible.test(c)) ? [text] : [];
}

const printed = /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{White_Space}]$/u;

// utf8 decodes a text, without what is not valid.
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

// jsons are the strings in a text that is JSON as a whole.
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
