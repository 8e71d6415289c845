// Detectors for the kinds of data that need no pattern.

/** Finds one kind of data from an index on. The text before the index has been processed and only provides context. */
export interface Detector {
	/** Returns the start and end of each match. */
	find(text: string, from: number): Range[];
	/** Returns the index from which more text could change the result of find; the text's length if there is none. */
	open(text: string, from: number): number;
}

export type Range = [from: number, to: number];

const digit = (c: string) => c >= "0" && c <= "9";
const alnum = (c: string) => /^[0-9A-Za-z]$/.test(c);
const word = (c: string) => /^\w$/.test(c);
const separator = (c: string) => c === " " || c === "-";

/** Returns the character at an index, or "" outside the text. */
const at = (text: string, i: number) => text[i] ?? "";

// back returns the start of the run of characters of a class that ends at index to; the result is
// at least least.
function back(text: string, least: number, to: number, is: (c: string) => boolean): number {
	while (to > least && is(text[to - 1]!)) to--;
	return to;
}

const inDomain = (c: string) => /^[0-9A-Za-z.-]$|^(?=[^\0-\x7f])\p{Script=Latin}$/u.test(c);
const inLocal = (c: string) => inDomain(c) || /^[_%+]$/.test(c);

// local returns the start of the local part before the @ at index i, at most 64 characters.
function local(text: string, least: number, i: number): number {
	let begin = back(text, Math.max(least, i - 64), i, inLocal);
	while (begin < i && text[begin] === ".") begin++;
	return begin;
}

// domain returns the end of the domain that begins at i, or 0. It has at least two labels, and the
// last begins with a letter.
function domain(text: string, i: number): number {
	const stop = Math.min(text.length, i + 253);
	let end = 0;
	for (let labels = 1; ; labels++) {
		let last = i;
		while (last < stop && text[last] !== "." && inDomain(text[last]!)) last++;
		const label = text.slice(i, last).replace(/-+$/, "");
		if (label === "" || label.length > 63 || label.startsWith("-")) return end;
		if (labels > 1 && label.length > 1 && !digit(label[0]!)) end = i + label.length;
		if (label.length < last - i || last >= stop || text[last] !== ".") return end;
		i = last + 1;
	}
}

export const email: Detector = {
	find(text, from) {
		const out: Range[] = [];
		let least = from;
		for (let i; (i = text.indexOf("@", least)) >= 0;) {
			const begin = local(text, least, i);
			const end = domain(text, i + 1);
			least = i + 1;
			if (begin < i && end > 0) out.push([begin, least = end]);
		}
		return out;
	},
	open(text, from) {
		const i = back(text, Math.max(from, text.length - 254), text.length, inDomain);
		if (i > from && text[i - 1] === "@") { // the domain may continue
			const begin = local(text, from, i - 1);
			if (begin < i - 1) return begin;
		}
		return local(text, from, text.length);
	},
};

const maxCard = 19;
const beginsNumber = (text: string, i: number) => !word(at(text, i - 1)) && at(text, i - 1) !== ".";

// cardAt returns the end of the longest card number that begins at i, or 0: 13 to 19 digits with a
// valid check digit, in groups of at least three.
function cardAt(text: string, i: number): number {
	if (!/^[2-6]$/.test(at(text, i)) || !beginsNumber(text, i)) return 0;
	let [end, digits] = [0, 0];
	for (let p = i; ;) {
		let q = p;
		while (digit(at(text, q)) && q - p <= maxCard) q++;
		digits += q - p;
		if (q - p < 3 || digits > maxCard) return end;
		if (digits >= 13 && !word(at(text, q)) && luhn(text.slice(i, q))) end = q;
		if (!separator(at(text, q)) || !digit(at(text, q + 1))) return end;
		p = q + 1;
	}
}

// luhn reports whether the check digit of a number is valid (ISO/IEC 7812-1).
function luhn(number: string): boolean {
	const digits = [...number].filter(digit).map(Number).reverse();
	const sum = digits.reduce((sum, d, i) => sum + (i % 2 === 0 ? d : (d * 2) % 10 + Math.floor(d / 5)), 0);
	return sum % 10 === 0;
}

export const card: Detector = {
	find: (text, from) => findEach(text, from, /(?<![\w.])[2-6](?=[0-9]{2})/g, cardAt),
	// Goes back group by group while a group could begin a card number that more digits would
	// complete.
	open(text, from) {
		let [open, end, digits, growing] = [text.length, text.length, 0, true]; // growing: the last group may still grow
		if (end > from && separator(text[end - 1]!)) [end, growing] = [end - 1, false];
		for (;;) {
			const begin = back(text, Math.max(from, end - maxCard - 1), end, digit);
			digits += end - begin;
			if (begin === end || digits > maxCard || (end - begin < 3 && !growing) || !beginsNumber(text, begin)) return open;
			open = begin;
			if (begin === from || !separator(text[begin - 1]!)) return open;
			[end, growing] = [begin - 1, false];
		}
	},
};

// findEach calls endOf at each match of a pattern and returns the ranges it finds.
function findEach(text: string, from: number, begins: RegExp, endOf: (text: string, i: number) => number): Range[] {
	const out: Range[] = [];
	begins.lastIndex = from;
	for (let m; (m = begins.exec(text)) !== null;) {
		const end = endOf(text, m.index);
		if (end > 0) out.push([m.index, begins.lastIndex = end]);
	}
	return out;
}

// The versions of the Internet protocol: the characters of an address, its maximum length including
// a dot or colon that ends a sentence, and its parser.
const versions = [
	{ run: /[0-9.]+/g, mark: ".", in: (c: string) => /^[0-9.]$/.test(c), longest: 16, length: ipv4 },
	{ run: /[0-9.:a-fA-F]+/g, mark: ":", in: (c: string) => /^[0-9.:a-fA-F]$/.test(c), longest: 46, length: ipv6 },
];

// ipv4 returns the length of the address that a run of characters consists of, or 0.
function ipv4(run: string): number {
	if (run.endsWith(".")) run = run.slice(0, -1);
	return /^[0-9]{1,3}(\.[0-9]{1,3}){3}$/.test(run) && run.split(".").every((n) => Number(n) < 256) ? run.length : 0;
}

// ipv6 is like ipv4 for IPv6. An address must contain a decimal digit: face::cafe is more often
// something else.
function ipv6(run: string): number {
	if (run.endsWith(".") || (run.endsWith(":") && !run.endsWith("::"))) run = run.slice(0, -1);
	if (run.length >= 46 || !/[0-9]/.test(run) || (run.match(/:/g) ?? []).length < 2) return 0;
	const [head = "", ...rest] = run.split("::");
	if (rest.length > 1) return 0;
	const groups = [head, ...rest].flatMap((part) => (part === "" ? [] : part.split(":")));
	const last = groups.at(-1) ?? "";
	const v4 = last.includes(".");
	if (v4 && (run.endsWith("::") || ipv4(last) !== last.length || /(^|\.)0[0-9]/.test(last))) return 0;
	const count = groups.length + (v4 ? 1 : 0);
	const hex = v4 ? groups.slice(0, -1) : groups;
	return hex.every((g) => /^[0-9a-fA-F]{1,4}$/.test(g)) && (rest.length === 1 ? count < 8 : count === 8) ? run.length : 0;
}

export const ip: Detector = {
	find: (text, from) => versions.flatMap((v) => {
		const out: Range[] = [];
		v.run.lastIndex = from;
		for (let m; (m = v.run.exec(text)) !== null;) {
			if (!m[0].includes(v.mark)) continue;
			const end = v.run.lastIndex;
			let begin = m.index;
			if (begin === from && v.in(at(text, from - 1))) continue; // it began before
			if (text[begin] === ":" && !text.startsWith("::", begin)) begin++; // as in "ip:fe80::1"
			if (word(at(text, begin - 1)) || word(at(text, end))) continue;
			const n = v.length(text.slice(begin, end));
			if (n > 0) out.push([begin, begin + n]);
		}
		return out;
	}),
	open: (text, from) => Math.min(...versions.map((v) => {
		const begin = back(text, Math.max(from, text.length - v.longest - 1), text.length, v.in);
		return text.length - begin <= v.longest ? begin : text.length;
	})),
};

// Countries and the lengths of their IBANs, from SWIFT's IBAN registry.
const lengths = new Map((
	"AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 " +
	"EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 " +
	"LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 " +
	"QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"
).split(" ").map((s) => [s.slice(0, 2), Number(s.slice(2))]));

// ibanAt returns the end of the IBAN that begins at i, or 0, and whether more text could change
// that.
function ibanAt(text: string, i: number): { end: number; open: boolean } {
	const no = { end: 0, open: false };
	if (!alnum(at(text, i)) || digit(text[i]!) || alnum(at(text, i - 1))) return no;
	let [compact, length] = ["", Infinity];
	for (let p = i; ; p++) {
		const [seen, c] = [compact.length, at(text, p)];
		if (c === "") return { end: seen === length && mod97(compact) ? p : 0, open: true };
		if (seen === length) return alnum(c) || !mod97(compact) ? no : { end: p, open: false };
		if (separator(c) && seen > 0 && seen % 4 === 0 && alnum(text[p - 1]!)) continue;
		if (!alnum(c) || (seen < 4 && (seen < 2) === digit(c))) return no;
		compact += c.toUpperCase();
		if (seen === 1) {
			const known = lengths.get(compact);
			if (known === undefined) return no;
			length = known;
		}
	}
}

// mod97 reports whether the check digits of a number without separators are valid (ISO 7064).
function mod97(compact: string): boolean {
	let rest = 0;
	for (const c of compact.slice(4) + compact.slice(0, 4)) rest = (rest * (digit(c) ? 10 : 100) + parseInt(c, 36)) % 97;
	return rest === 1;
}

export const iban: Detector = {
	find: (text, from) => findEach(text, from, /(?<![0-9A-Za-z])[A-Za-z](?=[A-Za-z][0-9])/g, (text, i) => ibanAt(text, i).end),
	open(text, from) {
		for (let i = Math.max(from, text.length - 41); i < text.length; i++) if (ibanAt(text, i).open) return i;
		return text.length;
	},
};
