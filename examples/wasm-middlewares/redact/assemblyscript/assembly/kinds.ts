// The kinds of data to find. Each finds matches from an index on; the text before the index has
// been processed and only provides context.

export const EMAIL = 0, CARD = 1, IP = 2, IBAN = 3;
export const KINDS = ["email", "credit_card", "ip", "iban"];

export class Span {
	constructor(public from: i32, public to: i32, public kind: i32) {}
}

/** Adds the matches of a kind to out. */
export function find(kind: i32, t: string, from: i32, out: Span[]): void {
	for (let i = from; i < t.length; ) {
		const end = kind == EMAIL ? email(t, i) : kind == CARD ? card(t, i) : kind == IP ? ip(t, i) : digit(at(t, i + 2)) ? iban(t, i) : 0;
		const begin = kind == EMAIL && end > 0 ? local(t, back(t, from, i, IN_OTHERS), i) : i;
		if (end > 0 && begin < i + (kind == EMAIL ? 0 : 1)) out.push(new Span(begin, end, kind));
		i = max(end, i + 1);
	}
}

/** Returns the index from which more text could change the result of find; the text's length if there is none. */
export function open(kind: i32, t: string, from: i32): i32 {
	if (kind == EMAIL) return emailOpen(t, from);
	if (kind == CARD) return cardOpen(t, from);
	if (kind == IP) return ipOpen(t, from);
	for (let i = max(from, t.length - MAX_IBAN); i < t.length; i++) if (iban(t, i) == OPEN || ibanAtEnd) return i;
	return t.length;
}

// at returns the character at i, or 0 outside the text.
function at(t: string, i: i32): i32 {
	return i >= 0 && i < t.length ? t.charCodeAt(i) : 0;
}

function digit(c: i32): bool {
	return c >= 0x30 && c <= 0x39;
}

export function alnum(c: i32): bool {
	return digit(c) || ((c | 32) >= 0x61 && (c | 32) <= 0x7a);
}

function word(c: i32): bool {
	return alnum(c) || c == 0x5f;
}

function separator(c: i32): bool {
	return c == 0x20 || c == 0x2d;
}

const DIGITS = 0, IN_DOMAIN = 1, IN_LOCAL = 2, IN_IP = 3, IN_OTHERS = 4; // classes of characters

function is(c: i32, what: i32): bool {
	switch (what) {
		case DIGITS:
			return digit(c);
		case IN_IP:
			return digit(c) || c == 0x2e;
		case IN_OTHERS:
			return c != 0x40;
		case IN_LOCAL:
			if (c == 0x5f || c == 0x25 || c == 0x2b) return true;
		default:
			return alnum(c) || c == 0x2e || c == 0x2d;
	}
}

// back returns the start of the run of characters of a class that ends at index to; the result is
// at least least.
function back(t: string, least: i32, to: i32, what: i32): i32 {
	while (to > least && is(t.charCodeAt(to - 1), what)) to--;
	return to;
}

// local returns the start of the local part before the @ at index i, at most 64 characters.
function local(t: string, least: i32, i: i32): i32 {
	let begin = back(t, max(least, i - 64), i, IN_LOCAL);
	while (begin < i && t.charCodeAt(begin) == 0x2e) begin++;
	return begin;
}

// email returns the end of the address around the @ at index i, or 0.
function email(t: string, i: i32): i32 {
	return t.charCodeAt(i) == 0x40 ? domain(t, i + 1) : 0;
}

// domain returns the end of the domain that begins at i, or 0. It has at least two labels, and the
// last begins with a letter.
function domain(t: string, i: i32): i32 {
	const stop = min(t.length, i + 253);
	let end = 0;
	for (let labels = 1; i <= t.length; labels++) {
		let last = i;
		while (last < stop && t.charCodeAt(last) != 0x2e && is(t.charCodeAt(last), IN_DOMAIN)) last++;
		let n = last;
		while (n > i && t.charCodeAt(n - 1) == 0x2d) n--;
		if (n == i || n - i > 63 || t.charCodeAt(i) == 0x2d) return end;
		if (labels > 1 && !digit(t.charCodeAt(i)) && n - i > 1) end = n;
		if (n < last || last >= stop || t.charCodeAt(last) != 0x2e) return end;
		i = last + 1;
	}
	return end;
}

function emailOpen(t: string, from: i32): i32 {
	// The domain after an @ may continue.
	const d = back(t, max(from, t.length - 254), t.length, IN_DOMAIN);
	if (d > from && t.charCodeAt(d - 1) == 0x40) {
		const begin = local(t, from, d - 1);
		if (begin < d - 1) return begin;
	}
	return local(t, from, t.length);
}

const MAX_CARD = 19;

function beginsNumber(t: string, i: i32): bool {
	return !word(at(t, i - 1)) && at(t, i - 1) != 0x2e;
}

// card returns the end of the longest card number that begins at i, or 0: 13 to 19 digits with a
// valid check digit, in groups of at least three.
function card(t: string, i: i32): i32 {
	const first = t.charCodeAt(i);
	if (first < 0x32 || first > 0x36 || !beginsNumber(t, i)) return 0;
	let end = 0, digits = 0;
	for (let p = i; p < t.length; ) {
		let q = p;
		while (digit(at(t, q)) && q - p <= MAX_CARD) q++;
		digits += q - p;
		if (q - p < 3 || digits > MAX_CARD) return end;
		if (digits >= 13 && !word(at(t, q)) && luhn(t, i, q)) end = q;
		if (!separator(at(t, q)) || !digit(at(t, q + 1))) return end;
		p = q + 1;
	}
	return end;
}

// luhn reports whether the check digit of a number is valid (ISO/IEC 7812-1).
function luhn(t: string, from: i32, to: i32): bool {
	let sum = 0, double = false;
	for (let i = to - 1; i >= from; i--) {
		const d = t.charCodeAt(i) - 0x30;
		if (d < 0) continue; // a separator
		sum += double ? ((d * 2) % 10) + d / 5 : d;
		double = !double;
	}
	return sum % 10 == 0;
}

// cardOpen goes back group by group while a group could begin a card number that more digits would
// complete.
function cardOpen(t: string, from: i32): i32 {
	let first = t.length, end = first, digits = 0, growing = true; // the last group may still grow
	if (end > from && separator(t.charCodeAt(end - 1))) {
		end--;
		growing = false;
	}
	while (true) {
		const begin = back(t, max(from, end - MAX_CARD - 1), end, DIGITS);
		digits += end - begin;
		if (begin == end || digits > MAX_CARD || (end - begin < 3 && !growing) || !beginsNumber(t, begin)) return first;
		first = begin;
		if (begin == from || !separator(t.charCodeAt(begin - 1))) return first;
		end = begin - 1;
		growing = false;
	}
}

const MAX_IP = 16; // including a dot that ends a sentence

// ip returns the end of the IPv4 address that begins at i, or 0: four numbers up to 255, not
// adjacent to word characters.
function ip(t: string, i: i32): i32 {
	if (!is(t.charCodeAt(i), IN_IP) || is(at(t, i - 1), IN_IP) || word(at(t, i - 1))) return 0;
	let end = i;
	while (is(at(t, end), IN_IP)) end++;
	if (word(at(t, end))) return 0;
	if (t.charCodeAt(end - 1) == 0x2e) end--;
	if (end - i >= MAX_IP) return 0;
	const groups = t.substring(i, end).split(".");
	for (let k = 0; k < groups.length; k++) {
		const n = groups[k].length;
		if (n == 0 || n > 3 || I32.parseInt(groups[k]) > 255) return 0;
	}
	return groups.length == 4 ? end : 0;
}

function ipOpen(t: string, from: i32): i32 {
	const begin = back(t, max(from, t.length - MAX_IP - 1), t.length, IN_IP);
	return t.length - begin <= MAX_IP ? begin : t.length;
}

// Countries and the lengths of their IBANs, from SWIFT's IBAN registry.
const LENGTHS =
	"AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 " +
	"EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 " +
	"LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 " +
	"QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";
const MAX_IBAN = 33 + 8;
const OPEN = -1;

let ibanAtEnd = false;

// iban returns the end of the IBAN that begins at i, 0 if there is none, or OPEN if the text ends
// first. It sets ibanAtEnd if an IBAN ends with the text.
function iban(t: string, i: i32): i32 {
	ibanAtEnd = false;
	if (!alnum(t.charCodeAt(i)) || digit(t.charCodeAt(i)) || alnum(at(t, i - 1))) return 0;
	let length = MAX_IBAN, compact = "";
	for (let p = i; p <= t.length; p++) {
		const seen = compact.length, c = at(t, p);
		if (p == t.length) {
			ibanAtEnd = seen == length && mod97(compact);
			return ibanAtEnd ? p : OPEN;
		}
		if (seen == length) return alnum(c) || !mod97(compact) ? 0 : p;
		if (separator(c) && seen > 0 && seen % 4 == 0 && alnum(t.charCodeAt(p - 1))) continue;
		if (!alnum(c) || (seen < 4 && seen < 2 == digit(c))) return 0;
		compact += t.charAt(p).toUpperCase();
		if (seen == 1) {
			const found = LENGTHS.indexOf(compact);
			if (found < 0) return 0;
			length = I32.parseInt(LENGTHS.substr(found + 2, 2));
		}
	}
	return 0;
}

// mod97 reports whether the check digits of a number without separators are valid (ISO 7064).
function mod97(compact: string): bool {
	let rest = 0;
	for (let i = 0; i < compact.length; i++) {
		const c = compact.charCodeAt((i + 4) % compact.length);
		rest = digit(c) ? (rest * 10 + c - 0x30) % 97 : (rest * 100 + c - 0x41 + 10) % 97;
	}
	return rest == 1;
}
