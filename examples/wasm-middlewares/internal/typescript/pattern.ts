// Compiles regular expressions in RE2 syntax, which the Go versions of the middlewares use, to
// JavaScript's, so that both languages find the same matches.

/** A regular expression. Matching can take exponential time: JavaScript's engine backtracks. */
export interface Pattern {
	test(text: string): boolean;
	/** Returns the start and end of each match. */
	ranges(text: string): [from: number, to: number][];
	/**
	 * Returns the first index, at or after from, of a match that could extend past the end of the text; the text's
	 * length if there is none.
	 */
	open(text: string, from: number): number;
}

/** Compiles an expression, or throws an Error that describes the problem. */
export function compile(source: string): Pattern {
	const { whole, begun } = new Parser(source).all();
	let match: RegExp;
	let grows: RegExp;
	try {
		match = new RegExp(whole, "gu");
		grows = new RegExp(`(?:${begun})${end}`, "gu");
	} catch (e) {
		throw new Error(`error parsing regexp: ${(e as Error).message}: ${source}`);
	}
	return {
		test(text) {
			match.lastIndex = 0;
			return match.test(text);
		},
		ranges: (text) => [...text.matchAll(match)].map((m) => [m.index, m.index + m[0].length]),
		open(text, from) {
			grows.lastIndex = from;
			return grows.exec(text)?.index ?? text.length;
		},
	};
}

// The two translations of an expression. whole matches as usual. begun also matches at the end of the
// text if more text could complete or extend the match.
interface Made {
	whole: string;
	begun: string;
}

const end = "(?![^])"; // matches only at the end of the text

const made = (whole: string): Made => ({ whole, begun: `(?:${whole}|${end})` });
const both = (a: Made, b: Made, between = ""): Made => ({ whole: a.whole + between + b.whole, begun: a.begun + between + b.begun });
const around = (m: Made, suffix = ""): Made => ({ whole: `(?:${m.whole})${suffix}`, begun: `(?:${m.begun})${suffix}` });

interface Flags {
	i: boolean;
	m: boolean;
	s: boolean;
	U: boolean;
}

class Parser {
	private i = 0;
	private flags: Flags = { i: false, m: false, s: false, U: false };

	constructor(private readonly source: string) {}

	all(): Made {
		const m = this.alternatives();
		if (this.i < this.source.length) throw this.error("unexpected )");
		return m;
	}

	private error(what: string) {
		return new Error(`error parsing regexp: ${what}: ${this.source}`);
	}

	// take consumes and returns a match of the sticky pattern at the current position, if there is
	// one.
	private take(pattern: RegExp): RegExpExecArray | undefined {
		pattern.lastIndex = this.i;
		const found = pattern.exec(this.source) ?? undefined;
		this.i += found?.[0].length ?? 0;
		return found;
	}

	private alternatives(): Made {
		const outer = this.flags; // flags apply until the end of their group
		let m = this.sequence();
		while (this.take(/\|/y)) m = both(m, this.sequence(), "|");
		this.flags = outer;
		return m;
	}

	private sequence(): Made {
		let m: Made = { whole: "", begun: "" };
		while (this.i < this.source.length && !"|)".includes(this.source[this.i]!)) m = both(m, this.repeated());
		return m;
	}

	private repeated(): Made {
		let m = this.atom();
		const r = this.take(/([*+?]|\{[0-9]+(?:,[0-9]*)?\})(\??)/y);
		if (!r) return m;
		const [least = 0, most = 0] = (r[1]!.match(/[0-9]+/g) ?? []).map(Number);
		if (least > 1000 || most > 1000 || /,[0-9]/.test(r[1]!) && most < least) throw this.error("invalid repeat count");
		m = around(m, r[1]! + ((r[2] === "?") !== this.flags.U ? "?" : ""));
		if (this.take(/[*+?]|\{[0-9]+(?:,[0-9]*)?\}/y)) throw this.error("invalid nested repetition operator");
		return m;
	}

	private atom(): Made {
		if (this.take(/\(/y)) return this.group();
		if (this.take(/\[/y)) return made(this.cased(this.characterClass()));
		if (this.take(/\./y)) return made(this.flags.s ? "[^]" : "[^\\n]");
		if (this.take(/\^/y)) return made(this.flags.m ? "(?<![^\\n])" : "(?<![^])");
		if (this.take(/\$/y)) return made(this.flags.m ? "(?![^\\n])" : end);
		const anchor = this.take(/\\[AzbB]/y)?.[0];
		if (anchor) return made({ "\\A": "(?<![^])", "\\z": end }[anchor] ?? anchor);
		const quoted = this.take(/\\Q([^]*?)(?:\\E|$)/y);
		if (quoted) return [...quoted[1]!].map((c) => made(this.cased(literal(c)))).reduce((a, b) => both(a, b), { whole: "", begun: "" });
		if (this.take(/[*+?]/y)) throw this.error("missing argument to repetition operator");
		const set = this.set();
		return made(this.cased(set === undefined ? literal(this.character()) : `[${set}]`));
	}

	private cased(leaf: string): string {
		return this.flags.i ? `(?i:${leaf})` : leaf;
	}

	private group(): Made {
		const outer = this.flags;
		if (this.take(/\?P?<[A-Za-z_][A-Za-z0-9_]*>/y) === undefined && this.take(/\?/y)) {
			const f = this.take(/([imsU]*)(?:-([imsU]+))?([:)])/y);
			if (!f) throw this.error("invalid or unsupported Perl syntax; RE2 has no look-around");
			const flags = { ...this.flags };
			for (const c of f[1]!) flags[c as keyof Flags] = true;
			for (const c of f[2] ?? "") flags[c as keyof Flags] = false;
			this.flags = flags;
			if (f[3] === ")") return { whole: "", begun: "" };
		}
		const m = around(this.alternatives());
		if (!this.take(/\)/y)) throw this.error("missing closing )");
		this.flags = outer;
		return m;
	}

	// characterClass parses the rest of a class after its [.
	private characterClass(): string {
		let out = this.take(/\^/y) ? "[^" : "[";
		for (let first = true; first || !this.take(/\]/y); first = false) {
			if (this.i >= this.source.length) throw this.error("missing closing ]");
			const set = this.set() ?? this.named();
			if (set !== undefined) {
				out += set;
				continue;
			}
			out += literal(this.character());
			if (this.take(/-(?!\])/y)) out += `-${literal(this.character())}`;
		}
		return `${out}]`;
	}

	private named(): string | undefined {
		const name = this.take(/\[:(\^?)([a-z]+):\]/y);
		if (!name) return undefined;
		const set = classes[name[2]!];
		if (set === undefined || name[1] !== "") throw this.error(`invalid character class range: ${name[0]}`);
		return set;
	}

	// set parses \d, \pL and the like, and returns the contents of a class.
	private set(): string | undefined {
		const c = this.take(/\\([dDwWsS])/y)?.[1];
		if (c) return sets[c];
		const p = this.take(/\\([pP])(?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))/y);
		if (!p) return undefined;
		const name = p[3] ?? p[4]!;
		const negated = (p[1] === "P") !== (p[2] === "^");
		return `\\${negated ? "P" : "p"}{${name === "Any" ? "Any" : name.length <= 2 ? `gc=${name}` : `Script=${name}`}}`;
	}

	// character parses one character, which may be an escape.
	private character(): string {
		const hex = this.take(/\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})/y);
		if (hex) return this.codePoint(parseInt(hex[1] ?? hex[2]!, 16));
		const octal = this.take(/\\(0[0-7]{0,2}|[1-7][0-7]{1,2})/y);
		if (octal) return this.codePoint(parseInt(octal[1]!, 8));
		const escape = this.take(/\\([^])/y)?.[1];
		if (escape !== undefined) {
			const control = { a: "\x07", f: "\f", t: "\t", n: "\n", r: "\r", v: "\v" }[escape];
			if (control === undefined && !/[!-/:-@[-`{-~]/.test(escape)) throw this.error(`invalid escape sequence: \\${escape}`);
			return control ?? escape;
		}
		const c = this.source.codePointAt(this.i);
		if (c === undefined || this.source[this.i] === "\\") throw this.error("trailing backslash at end of expression");
		this.i += c > 0xffff ? 2 : 1;
		return String.fromCodePoint(c);
	}

	private codePoint(c: number): string {
		if (c > 0x10ffff) throw this.error("invalid escape sequence");
		return String.fromCodePoint(c);
	}
}

// literal escapes one character so that it is safe in every context of a JavaScript pattern.
const literal = (c: string) => /[A-Za-z0-9]/.test(c) ? c : `\\u{${c.codePointAt(0)!.toString(16)}}`;

// RE2's definitions of these classes. JavaScript's are larger, and differ under (?i).
const sets: Record<string, string> = {
	d: "0-9", D: "\\0-/:-\\u{10ffff}",
	w: "0-9A-Za-z_", W: "\\0-/:-@\\[-\\^`\\{-\\u{10ffff}",
	s: "\\t\\n\\f\\r ", S: "\\0-\\x08\\x0b\\x0e-\\x1f!-\\u{10ffff}",
};

const classes: Record<string, string> = {
	alnum: "0-9A-Za-z", alpha: "A-Za-z", ascii: "\\0-\\x7f", blank: "\\t ", cntrl: "\\0-\\x1f\\x7f", digit: "0-9", graph: "!-~",
	lower: "a-z", print: " -~", punct: "!-\\/:-@\\[-`\\{-~", space: "\\t-\\r ", upper: "A-Z", word: "0-9A-Za-z_", xdigit: "0-9A-Fa-f",
};
