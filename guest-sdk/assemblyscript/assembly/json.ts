// A JSON reader and writer for the types of the ABI, and JSON trees.

/** Raw JSON text. Empty for an absent optional value. */
export type Json = string;

/** The maximum nesting depth of JSON. */
const DEPTH: i32 = 64;

// Strings are searched in words of eight bytes, or four units of UTF-16. These functions
// set the highest bit of each match; the bits after the first match are undefined.

const BYTES: u64 = 0x0101010101010101, HIGH: u64 = 0x8080808080808080;
const UNITS: u64 = 0x0001000100010001;

// @ts-ignore: decorator
@inline
function zeros(word: u64): u64 {
	return (word - BYTES) & ~word & HIGH;
}

/**
 * Marks the characters that a JSON string must escape: quotes, backslashes and control
 * characters. With bit 2 inverted, a quote is one above the control characters.
 */
// @ts-ignore: decorator
@inline
function specials(word: u64): u64 {
	return (((word ^ (BYTES * 2)) - BYTES * 0x21) | ((word ^ (BYTES * 0x5c)) - BYTES)) & ~word & HIGH;
}

/**
 * Marks the UTF-16 units that are not written as one equal byte: those to escape, and all
 * beyond ASCII.
 */
// @ts-ignore: decorator
@inline
function specialUnits(word: u64): u64 {
	return ((((word ^ (UNITS * 2)) - UNITS * 0x21) | ((word ^ (UNITS * 0x5c)) - UNITS)) & (UNITS << 15)) | (word & (UNITS * 0xff80));
}

/** Widens four bytes to four units. */
// @ts-ignore: decorator
@inline
function widen(four: u32): u64 {
	let x: u64 = four;
	x = (x | (x << 16)) & 0x0000ffff0000ffff;
	return (x | (x << 8)) & 0x00ff00ff00ff00ff;
}

/** Narrows four units below 256 to four bytes. */
// @ts-ignore: decorator
@inline
function narrow(units: u64): u32 {
	const x = (units | (units >> 8)) & 0x0000ffff0000ffff;
	return <u32>(x | (x >> 16));
}

/** Allocates a string of the given number of units. */
function room(units: usize): usize {
	return __new(units << 1, idof<string>());
}

/** Decodes n bytes of ASCII. */
function ascii(at: usize, n: usize): string {
	const out = room(n);
	let i: usize = 0;
	for (; i + 4 <= n; i += 4) store<u64>(out + (i << 1), widen(load<u32>(at + i)));
	for (; i < n; i++) store<u16>(out + (i << 1), load<u8>(at + i));
	return changetype<string>(out);
}

/** Decodes n bytes of UTF-8. */
function decoded(at: usize, n: usize): string {
	let i: usize = 0;
	while (i + 8 <= n && (load<u64>(at + i) & HIGH) == 0) i += 8;
	while (i < n && load<u8>(at + i) < 0x80) i++;
	return i == n ? ascii(at, n) : String.UTF8.decodeUnsafe(at, n);
}

/** Compares a string with n bytes of ASCII. */
function isThat(text: string, at: usize, n: usize): bool {
	if (<usize>text.length != n) return false;
	const ptr = changetype<usize>(text);
	let i: usize = 0;
	for (; i + 4 <= n; i += 4) if (load<u64>(ptr + (i << 1)) != widen(load<u32>(at + i))) return false;
	for (; i < n; i++) if (load<u16>(ptr + (i << 1)) != <u16>load<u8>(at + i)) return false;
	return true;
}

/** A cache of keys by their hash: most keys recur. */
const keys = new StaticArray<string | null>(128);

/** What a string contains besides plain ASCII. */
const ESCAPES: i32 = 1, WIDE: i32 = 2;

/** A type of the ABI. It is an object with fields unless it overrides read. */
export abstract class Value {
	/** Reads the value of a field. Returns false for an unknown key. */
	readField(_key: string, _r: Reader): bool {
		return false;
	}

	writeFields(_w: Writer): void {}

	/** Reads the whole value. null counts as an object without fields. */
	read(r: Reader): void {
		if (r.none()) return;
		r.enter(0x7b, "want an object");
		while (r.item(0x7d)) {
			const key = r.key();
			if (!this.readField(key, r)) r.skip();
		}
	}

	write(w: Writer): void {
		w.byte(0x7b);
		this.writeFields(w);
		w.byte(0x7d);
	}

	/** Reports whether the value is omitted where it is optional. */
	isEmpty(): bool {
		return encode(this).length == 2;
	}
}

/** Returns the JSON encoding of a value. */
export function encode(value: Value): Json {
	const w = new Writer();
	value.write(w);
	return w.toString();
}

/** Decodes JSON into a value. Returns an error message, or "". */
export function decode(json: Json, value: Value): string {
	const bytes = String.UTF8.encode(json);
	const r = new Reader(changetype<usize>(bytes), bytes.byteLength);
	value.read(r);
	r.end();
	return r.wrong;
}

/** Reads JSON from UTF-8 bytes. It records the first error and stops reading. */
export class Reader {
	wrong: string = "";
	private at: usize;
	private stop: usize;
	private depth: i32 = 0;
	private first: bool = false;

	constructor(ptr: usize, len: i32) {
		this.at = ptr;
		this.stop = ptr + len;
	}

	fail(why: string): void {
		if (this.wrong.length == 0) this.wrong = why;
		this.stop = this.at;
	}

	/** The next byte that is not white space, or 0 at the end. */
	peek(): u8 {
		while (this.at < this.stop) {
			const c = load<u8>(this.at);
			if (c > 0x20 || (c != 0x20 && c != 0x0a && c != 0x09 && c != 0x0d)) return c;
			this.at++;
		}
		return 0;
	}

	private byte(): u8 {
		return this.at < this.stop ? load<u8>(this.at) : 0;
	}

	private word(word: string): void {
		for (let i = 0; i < word.length; i++) {
			if (this.byte() != <u8>word.charCodeAt(i)) return this.fail("invalid JSON value");
			this.at++;
		}
	}

	end(): void {
		if (this.wrong.length == 0 && this.peek() != 0) this.fail("unexpected text after the JSON value");
	}

	/** Skips a null and reports whether there was one. */
	none(): bool {
		if (this.peek() != 0x6e) return false;
		this.word("null");
		return true;
	}

	/** Starts a list or an object with the given bracket. */
	enter(open: u8, wanted: string): void {
		if (this.peek() != open) return this.fail(wanted);
		this.at++;
		this.first = true;
		if (++this.depth > DEPTH) this.fail("nested too deeply");
	}

	/** Advances to the next item of a list or object, or ends it. */
	item(close: u8): bool {
		const first = this.first;
		this.first = false;
		const c = this.peek();
		if (c == close) {
			this.at++;
			this.depth--;
			return false;
		}
		if (!first) {
			if (c != 0x2c) this.fail("want a comma");
			else {
				this.at++;
				if (this.peek() == close) this.fail("trailing comma");
			}
		}
		if (this.peek() == 0) this.fail("want an item");
		return this.wrong.length == 0;
	}

	key(): string {
		this.peek();
		const from = this.at + 1, kind = this.span(), n = this.at - 1 - from;
		if (this.wrong.length > 0) return "";
		this.colon();
		if (kind != 0 || n == 0) return this.between(from, n, kind);
		const i = <i32>((<usize>load<u8>(from) * 7 + <usize>load<u8>(from + n - 1) * 3 + n * 5) & 127), known = keys[i];
		if (known !== null && isThat(known, from, n)) return known;
		const key = ascii(from, n);
		keys[i] = key;
		return key;
	}

	private colon(): void {
		if (this.peek() != 0x3a) this.fail("want a colon");
		else this.at++;
	}

	/** Reads a string. null counts as "". */
	text(): string {
		if (this.none()) return "";
		const from = this.at + 1, kind = this.span();
		return this.wrong.length > 0 ? "" : this.between(from, this.at - 1 - from, kind);
	}

	/** Skips a string and returns what it contains. */
	private span(): i32 {
		if (this.peek() != 0x22) {
			this.fail("want a string");
			return 0;
		}
		const stop = this.stop;
		let at = this.at + 1, kind = 0;
		while (at < stop) {
			if (stop - at >= 8) {
				const word = load<u64>(at), found = specials(word);
				if (word & HIGH) kind |= WIDE; // bytes after the string only cost time
				if (found == 0) {
					at += 8;
					continue;
				}
				at += <usize>(ctz(found) >> 3);
			}
			const c = load<u8>(at);
			if (c == 0x22) {
				this.at = at + 1;
				return kind;
			}
			if (c < 0x20) break;
			if (c >= 0x80) kind |= WIDE;
			if (c == 0x5c) {
				kind |= ESCAPES;
				at++;
			}
			at++;
		}
		this.at = min(at, stop);
		this.fail("unterminated string");
		return 0;
	}

	/** Returns the text of the skipped string. */
	private between(from: usize, n: usize, kind: i32): string {
		if (n == 0) return "";
		if (kind == 0) return ascii(from, n);
		if (kind == WIDE) return String.UTF8.decodeUnsafe(from, n);
		return this.unescaped(from, from + n);
	}

	/**
	 * Returns the text of a string with at least one escape, decoded. It is shorter than
	 * the encoded text.
	 */
	private unescaped(from: usize, to: usize): string {
		const out = room(to - from), behind = this.at;
		let at = from, end = out;
		while (at < to) {
			if (to - at >= 4) {
				const four = load<u32>(at), slash = four ^ 0x5c5c5c5c;
				if (((four | ((slash - 0x01010101) & ~slash)) & 0x80808080) == 0) {
					store<u64>(end, widen(four));
					at += 4;
					end += 8;
					continue;
				}
			}
			const c: u32 = load<u8>(at);
			let point: u32 = c;
			if (c == 0x5c) {
				this.at = at;
				point = this.escape(to);
				if (this.wrong.length > 0) return "";
				at = this.at;
			} else if (c < 0x80) {
				at++;
			} else if (c < 0xe0) {
				point = ((c & 31) << 6) | (load<u8>(at + 1) & 63);
				at += 2;
			} else if (c < 0xf0) {
				point = ((c & 15) << 12) | (<u32>(load<u8>(at + 1) & 63) << 6) | (load<u8>(at + 2) & 63);
				at += 3;
			} else {
				point = ((c & 7) << 18) | (<u32>(load<u8>(at + 1) & 63) << 12) | (<u32>(load<u8>(at + 2) & 63) << 6) | (load<u8>(at + 3) & 63);
				at += 4;
			}
			if (point > 0xffff) {
				point -= 0x10000;
				store<u16>(end, <u16>(0xd800 | (point >> 10)));
				store<u16>(end + 2, <u16>(0xdc00 | (point & 0x3ff)));
				end += 4;
			} else {
				store<u16>(end, <u16>point);
				end += 2;
			}
		}
		this.at = behind;
		return changetype<string>(__renew(out, end - out));
	}

	/**
	 * Reads an escape that ends before a position. Half of a surrogate pair becomes the
	 * replacement character.
	 */
	private escape(to: usize): u32 {
		const c = this.at + 1 < to ? load<u8>(this.at + 1) : 0;
		if (c == 0x75) {
			let code = this.hex(this.at + 2);
			this.at += 6;
			if (code >= 0xd800 && code < 0xdc00 && this.at + 6 <= to && load<u16>(this.at) == 0x755c) {
				const low = this.hex(this.at + 2);
				if (low >= 0xdc00 && low < 0xe000) {
					code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
					this.at += 6;
				}
			}
			return code >= 0xd800 && code < 0xe000 ? 0xfffd : code;
		}
		this.at += 2;
		switch (c) {
			case 0x22:
			case 0x5c:
			case 0x2f:
				return c;
			case 0x6e:
				return 0x0a;
			case 0x74:
				return 0x09;
			case 0x72:
				return 0x0d;
			case 0x62:
				return 0x08;
			case 0x66:
				return 0x0c;
		}
		this.fail("invalid escape in a string");
		return 0;
	}

	private hex(at: usize): i32 {
		let code = 0;
		for (let i: usize = 0; i < 4; i++) {
			const c: i32 = at + i < this.stop ? load<u8>(at + i) : 0;
			const lower = c | 32;
			const digit = c >= 0x30 && c <= 0x39 ? c - 0x30 : lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
			if (digit < 0) {
				this.fail("invalid escape in a string");
				return -1;
			}
			code = (code << 4) | digit;
		}
		return code;
	}

	private digits(): i32 {
		const from = this.at;
		while (this.byte() >= 0x30 && this.byte() <= 0x39) this.at++;
		return <i32>(this.at - from);
	}

	/** Skips a number and returns its text. */
	number(): string {
		this.peek();
		const from = this.at;
		if (this.byte() == 0x2d) this.at++;
		const zero = this.byte() == 0x30;
		const n = this.digits();
		let ok = n == 1 || (n > 0 && !zero);
		if (this.byte() == 0x2e) {
			this.at++;
			ok = this.digits() > 0 && ok;
		}
		if ((this.byte() | 32) == 0x65) {
			this.at++;
			if (this.byte() == 0x2d || this.byte() == 0x2b) this.at++;
			ok = this.digits() > 0 && ok;
		}
		if (!ok) {
			this.fail("invalid JSON value");
			return "";
		}
		return ascii(from, this.at - from);
	}

	/** Reads an integer. A value out of range becomes the nearest valid one. */
	whole(): i64 {
		if (this.none()) return 0;
		let at = this.at, few: i64 = 0;
		const from = at, most = min(this.stop, at + 18);
		for (; at < most; at++) {
			const d = <u32>load<u8>(at) - 0x30;
			if (d > 9) break;
			few = few * 10 + d;
		}
		if (at > from && at < this.stop && (load<u8>(at) == 0x2c || load<u8>(at) == 0x7d) && (at == from + 1 || load<u8>(from) != 0x30)) {
			this.at = at;
			return few;
		}
		const literal = this.number();
		const negative = literal.startsWith("-");
		let v: i64 = 0;
		for (let i = negative ? 1 : 0; i < literal.length; i++) {
			const d: i64 = literal.charCodeAt(i) - 0x30;
			if (d < 0 || d > 9) {
				this.fail("want an integer");
				return 0;
			}
			v = v > (i64.MAX_VALUE - d) / 10 ? i64.MAX_VALUE : v * 10 + d;
		}
		return negative ? -v : v;
	}

	small(): i32 {
		return <i32>max<i64>(min<i64>(this.whole(), i32.MAX_VALUE), i32.MIN_VALUE);
	}

	boolean(): bool {
		const c = this.peek();
		if (c == 0x74) this.word("true");
		else if (c == 0x66) this.word("false");
		else if (!this.none()) this.fail("want true or false");
		return c == 0x74;
	}

	private skipText(): void {
		this.peek();
		const from = this.at + 1;
		if (this.span() & ESCAPES && this.wrong.length == 0) this.unescaped(from, this.at - 1);
	}

	/** Skips a value. */
	skip(): void {
		switch (this.peek()) {
			case 0x22:
				return this.skipText();
			case 0x7b:
				this.enter(0x7b, "");
				while (this.item(0x7d)) {
					this.skipText();
					this.colon();
					this.skip();
				}
				return;
			case 0x5b:
				this.enter(0x5b, "");
				while (this.item(0x5d)) this.skip();
				return;
			case 0x74:
				return this.word("true");
			case 0x66:
				return this.word("false");
			case 0x6e:
				return this.word("null");
			default:
				this.number();
		}
	}

	raw(): Json {
		this.peek();
		const from = this.at;
		this.skip();
		return this.wrong.length > 0 ? "" : decoded(from, this.at - from);
	}

	members(): Members {
		const m = new Members();
		if (this.none()) return m;
		this.enter(0x7b, "want an object");
		while (this.item(0x7d)) {
			const key = this.key();
			m.add(key, this.raw());
		}
		return m;
	}

	texts(): string[] {
		const out: string[] = [];
		if (this.none()) return out;
		this.enter(0x5b, "want a list");
		while (this.item(0x5d)) out.push(this.text());
		return out;
	}

	list<T extends Value>(): T[] {
		const out: T[] = [];
		if (this.none()) return out;
		this.enter(0x5b, "want a list");
		while (this.item(0x5d)) out.push(this.object<T>());
		return out;
	}

	object<T extends Value>(): T {
		const v = instantiate<T>();
		v.read(this);
		return v;
	}
}

/** Writes JSON as UTF-8. */
export class Writer {
	private buffer: ArrayBuffer = new ArrayBuffer(256);
	length: i32 = 0;

	get ptr(): usize {
		return changetype<usize>(this.buffer);
	}

	toString(): string {
		return decoded(this.ptr, this.length);
	}

	private room(n: i32): usize {
		if (this.length + n > this.buffer.byteLength) {
			let size = this.buffer.byteLength * 2;
			while (size < this.length + n) size *= 2;
			const more = new ArrayBuffer(size);
			memory.copy(changetype<usize>(more), this.ptr, this.length);
			this.buffer = more;
		}
		return this.ptr + this.length;
	}

	byte(c: u8): void {
		store<u8>(this.room(1), c);
		this.length++;
	}

	/** Writes raw JSON. */
	raw(json: Json): void {
		const from = changetype<usize>(json), n = json.length, to = this.room(n);
		let i: usize = 0;
		for (; i + 4 <= <usize>n; i += 4) {
			const units = load<u64>(from + (i << 1));
			if (units & (UNITS * 0xff80)) break;
			store<u32>(to + i, narrow(units));
		}
		this.length += <i32>i;
		for (; i < <usize>n; i++) {
			const unit = load<u16>(from + (i << 1));
			if (unit >= 0x80) break;
			this.byte(<u8>unit);
		}
		if (i == <usize>n) return;
		const rest = from + (i << 1), units = n - <i32>i;
		this.length += <i32>String.UTF8.encodeUnsafe(rest, units, this.room(units * 3));
	}

	/** Writes a string. Half of a surrogate pair becomes the replacement character. */
	text(text: string): void {
		this.byte(0x22);
		const from = changetype<usize>(text), n = text.length;
		this.room(n + 1);
		for (let i = 0; i < n; i++) {
			if (n - i >= 4) {
				const units = load<u64>(from + (<usize>i << 1));
				if (specialUnits(units) == 0) {
					store<u32>(this.room(4), narrow(units));
					this.length += 4;
					i += 3;
					continue;
				}
			}
			const c = <i32>load<u16>(from + (<usize>i << 1));
			if (c >= 0x20 && c != 0x22 && c != 0x5c && c < 0x80) {
				this.byte(<u8>c);
				continue;
			}
			if (c < 0x80) {
				this.escaped(c);
				continue;
			}
			if (c == 0x2028 || c == 0x2029) {
				this.raw(c == 0x2028 ? "\\u2028" : "\\u2029");
				continue;
			}
			const whole = text.codePointAt(i);
			if (whole > 0xffff) i++;
			this.point(whole >= 0xd800 && whole < 0xe000 ? 0xfffd : whole);
		}
		this.byte(0x22);
	}

	private escaped(c: i32): void {
		const i = "\"\\\b\f\n\r\t".indexOf(String.fromCharCode(c));
		this.byte(0x5c);
		if (i >= 0) return this.byte(<u8>"\"\\bfnrt".charCodeAt(i));
		this.raw("u00");
		this.byte(<u8>"0123456789abcdef".charCodeAt(c >> 4));
		this.byte(<u8>"0123456789abcdef".charCodeAt(c & 15));
	}

	private point(c: i32): void {
		if (c < 0x800) {
			this.byte(<u8>(0xc0 | (c >> 6)));
		} else {
			if (c < 0x10000) {
				this.byte(<u8>(0xe0 | (c >> 12)));
			} else {
				this.byte(<u8>(0xf0 | (c >> 18)));
				this.byte(<u8>(0x80 | ((c >> 12) & 63)));
			}
			this.byte(<u8>(0x80 | ((c >> 6) & 63)));
		}
		this.byte(<u8>(0x80 | (c & 63)));
	}

	key(key: string): void {
		if (load<u8>(this.ptr + this.length - 1) != 0x7b) this.byte(0x2c);
		this.text(key);
		this.byte(0x3a);
	}

	textField(key: string, value: string): void {
		this.key(key);
		this.text(value);
	}

	rawField(key: string, value: Json): void {
		this.key(key);
		this.raw(value.length > 0 ? value : "null");
	}

	wholeField(key: string, value: i64): void {
		this.key(key);
		this.raw(value.toString());
	}

	booleanField(key: string, value: bool): void {
		this.key(key);
		this.raw(value ? "true" : "false");
	}

	membersField(key: string, value: Members): void {
		this.key(key);
		this.byte(0x7b);
		value.writeFields(this);
		this.byte(0x7d);
	}

	textsField(key: string, value: string[]): void {
		this.key(key);
		this.byte(0x5b);
		for (let i = 0; i < value.length; i++) {
			if (i > 0) this.byte(0x2c);
			this.text(value[i]);
		}
		this.byte(0x5d);
	}

	list<T extends Value>(value: T[]): void {
		this.byte(0x5b);
		for (let i = 0; i < value.length; i++) {
			if (i > 0) this.byte(0x2c);
			value[i].write(this);
		}
		this.byte(0x5d);
	}

	listField<T extends Value>(key: string, value: T[]): void {
		this.key(key);
		this.list<T>(value);
	}

	objectField(key: string, value: Value | null): void {
		this.key(key);
		if (value === null) this.raw("null");
		else value.write(this);
	}
}

/** The value of members without entries. */
const none: string[] = [];

/** The keys and values of an object, in order. */
export class Members {
	/** Read-only. Use add to append. */
	keys: string[] = none;
	values: Json[] = none;

	get length(): i32 {
		return this.keys.length;
	}

	/** The value of a key, or "". */
	get(key: string): Json {
		const i = this.keys.indexOf(key);
		return i < 0 ? "" : this.values[i];
	}

	add(key: string, value: Json): void {
		if (this.keys === none) {
			this.keys = [];
			this.values = [];
		}
		this.keys.push(key);
		this.values.push(value);
	}

	writeFields(w: Writer): void {
		for (let i = 0; i < this.keys.length; i++) w.rawField(this.keys[i], this.values[i]);
	}
}

export enum Kind {
	Null,
	Bool,
	Number,
	Text,
	List,
	Object,
}

/** A JSON value as a tree. Duplicate keys are an error. */
export class Tree extends Value {
	kind: Kind = Kind.Null;
	/** The text of a string, or the literal of a number or boolean. */
	text: string = "";
	keys: string[] = [];
	items: Tree[] = [];

	read(r: Reader): void {
		switch (r.peek()) {
			case 0x22:
				this.kind = Kind.Text;
				this.text = r.text();
				return;
			case 0x7b:
				this.kind = Kind.Object;
				r.enter(0x7b, "");
				while (r.item(0x7d)) {
					const key = r.key();
					if (this.keys.includes(key)) r.fail("duplicate key");
					this.keys.push(key);
					this.items.push(r.object<Tree>());
				}
				return;
			case 0x5b:
				this.kind = Kind.List;
				this.items = r.list<Tree>();
				return;
			case 0x74:
			case 0x66:
				this.kind = Kind.Bool;
				this.text = r.boolean() ? "true" : "false";
				return;
			case 0x6e:
				r.none();
				return;
			default:
				this.kind = Kind.Number;
				this.text = r.number();
		}
	}

	/** Returns the value of a key, or null. */
	get(key: string): Tree | null {
		const i = this.kind == Kind.Object ? this.keys.indexOf(key) : -1;
		return i < 0 ? null : this.items[i];
	}

	/** Returns the string of a key, or a default. */
	textOf(key: string, otherwise: string): string {
		const v = this.get(key);
		return v !== null && v.kind == Kind.Text ? v.text : otherwise;
	}

	/** Returns the integer of a key, or a default. */
	wholeOf(key: string, otherwise: i64): i64 {
		const v = this.get(key);
		return v !== null && v.kind == Kind.Number ? I64.parseInt(v.text) : otherwise;
	}

	/** Returns the strings of the list of a key, or an empty list. */
	textsOf(key: string): string[] {
		const out: string[] = [], v = this.get(key);
		if (v !== null) for (let i = 0; i < v.items.length; i++) if (v.items[i].kind == Kind.Text) out.push(v.items[i].text);
		return out;
	}

	/** Reports whether the value of a key is true. */
	isTrue(key: string): bool {
		const v = this.get(key);
		return v !== null && v.kind == Kind.Bool && v.text == "true";
	}
}

/** Parses JSON to a tree. Returns null if the text is invalid. */
export function parse(json: Json): Tree | null {
	const tree = new Tree();
	return decode(json, tree).length == 0 ? tree : null;
}

/** Encodes a string as JSON. */
export function quote(text: string): Json {
	const w = new Writer();
	w.text(text);
	return w.toString();
}

/** Encodes an object of strings: object(["call", id, "tool", name]). */
export function object(pairs: string[]): Json {
	const w = new Writer();
	w.byte(0x7b);
	for (let i = 0; i + 1 < pairs.length; i += 2) w.textField(pairs[i], pairs[i + 1]);
	w.byte(0x7d);
	return w.toString();
}
