// Regular expressions for this policy. Matching takes one pass over the text for any pattern, so no
// pattern makes it slow.
//
// The syntax is . [] () | * + ? {n,m} ^ $ \b, the classes \d \w \s and their negations, escapes of
// punctuation, \t \n \r, and (?i) (?s) at the beginning. Anything else is an error.

enum Op {
	Char,
	Any,
	Set,
	Split,
	Jump,
	Begin,
	End,
	Border,
	Inside,
	Match,
}

// x and y are a character, or relative jump targets.
class Step {
	constructor(public op: Op, public x: i32 = 0, public y: i32 = 0, public ranges: i32[] = [], public negated: bool = false) {}
}

const MOST = 2000;
const DEEPEST = 50;

// classRanges returns the ranges of \d, \w or \s, or of their negations, and none for other names.
function classRanges(name: i32): i32[] {
	const lower = name | 32;
	let ranges: i32[] = [];
	if (lower == 0x64) ranges = [0x30, 0x39];
	else if (lower == 0x77) ranges = [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a];
	else if (lower == 0x73) ranges = [0x09, 0x0a, 0x0c, 0x0d, 0x20, 0x20];
	if (ranges.length == 0 || name == lower) return ranges;
	const others: i32[] = [];
	let next = 0;
	for (let i = 0; i < ranges.length; i += 2) {
		if (next < ranges[i]) others.push(next), others.push(ranges[i] - 1);
		next = ranges[i + 1] + 1;
	}
	others.push(next);
	others.push(0x10ffff);
	return others;
}

export class Pattern {
	/** Describes the error in the pattern, or is "". */
	wrong: string = "";
	private code: Step[] = [];
	private chars: i32[];
	private at: i32 = 0;
	private depth: i32 = 0;
	private fold: bool = false;
	private lines: bool = false;

	constructor(text: string) {
		this.chars = charsOf(text);
		if (text.startsWith("(?i)") || text.startsWith("(?s)")) {
			this.fold = text.charAt(2) == "i";
			this.lines = !this.fold;
			this.at = 4;
		}
		this.either();
		if (this.at < this.chars.length) this.fail("a ( is missing");
		this.emit(new Step(Op.Match));
	}

	private fail(why: string): void {
		if (this.wrong.length == 0) this.wrong = why;
		this.at = this.chars.length;
	}

	private emit(step: Step): void {
		if (this.code.length >= MOST) this.fail("it is too long");
		else this.code.push(step);
	}

	// peek returns the next character, or -1.
	private peek(ahead: i32 = 0): i32 {
		return this.at + ahead < this.chars.length ? this.chars[this.at + ahead] : -1;
	}

	private take(c: i32): bool {
		if (this.peek() != c) return false;
		this.at++;
		return true;
	}

	private either(): void {
		const at = this.code.length;
		while (this.peek() >= 0 && this.peek() != 0x7c && this.peek() != 0x29) this.repeated();
		if (!this.take(0x7c)) return;
		// Jumps are relative, so the moved steps stay valid.
		const first = this.code.splice(at);
		this.emit(new Step(Op.Split, 1, first.length + 2));
		this.all(first);
		const jump = new Step(Op.Jump), from = this.code.length;
		this.emit(jump);
		this.either();
		jump.x = this.code.length - from;
	}

	private all(steps: Step[]): void {
		for (let i = 0; i < steps.length && this.wrong.length == 0; i++) this.emit(steps[i]);
	}

	private repeated(): void {
		const at = this.code.length;
		this.atom();
		const count = this.count();
		if (count === null) return;
		this.take(0x3f); // greediness does not affect whether it matches
		if (this.count() !== null) return this.fail("there is nothing to repeat");
		const one = this.code.splice(at), least = count[0], most = count[1];
		for (let i = 0; i < least && this.wrong.length == 0; i++) this.all(one);
		if (most < 0) {
			this.emit(new Step(Op.Split, 1, one.length + 2));
			this.all(one);
			this.emit(new Step(Op.Jump, -one.length - 1));
		}
		for (let i = least; i < most && this.wrong.length == 0; i++) {
			this.emit(new Step(Op.Split, 1, one.length + 1));
			this.all(one);
		}
	}

	// count parses * + ? {n} {n,} {n,m}, if one follows, and returns the minimum and the maximum,
	// which is -1 if unlimited. Other braces are literal.
	private count(): i32[] | null {
		if (this.take(0x2a)) return [0, -1];
		if (this.take(0x2b)) return [1, -1];
		if (this.take(0x3f)) return [0, 1];
		if (this.peek() != 0x7b) return null;
		const n: i32[] = [0, -1], digits: i32[] = [0, 0];
		let which = 0, i = 1;
		for (; this.peek(i) != 0x7d; i++) {
			const c = this.peek(i);
			if (c == 0x2c && which == 0) {
				which = 1;
			} else if (c >= 0x30 && c <= 0x39 && digits[which] < 4) {
				digits[which]++;
				n[which] = max(n[which], 0) * 10 + c - 0x30;
			} else {
				return null;
			}
		}
		if (digits[0] == 0) return null;
		if (which == 0) n[1] = n[0];
		if (n[1] >= 0 && n[1] < n[0]) this.fail("a count is the wrong way round");
		else this.at += i + 1;
		return n;
	}

	private atom(): void {
		const c = this.chars[this.at++];
		switch (c) {
			case 0x28:
				return this.group();
			case 0x5b:
				return this.set();
			case 0x2e:
				return this.emit(new Step(Op.Any));
			case 0x5e:
				return this.emit(new Step(Op.Begin));
			case 0x24:
				return this.emit(new Step(Op.End));
			case 0x2a:
			case 0x2b:
			case 0x3f:
				return this.fail("there is nothing to repeat");
			case 0x5c: {
				if (this.take(0x62)) return this.emit(new Step(Op.Border));
				if (this.take(0x42)) return this.emit(new Step(Op.Inside));
				const ranges = classRanges(this.peek());
				if (ranges.length == 0) return this.emit(new Step(Op.Char, this.escaped()));
				this.at++;
				return this.emit(new Step(Op.Set, 0, 0, ranges));
			}
			default:
				this.emit(new Step(Op.Char, c));
		}
	}

	private group(): void {
		if (this.take(0x3f) && !this.take(0x3a)) return this.fail("it has a group that begins with (?");
		if (++this.depth > DEEPEST) return this.fail("it is nested too deeply");
		this.either();
		this.depth--;
		if (!this.take(0x29)) this.fail("a ) is missing");
	}

	// escaped parses the character after a backslash.
	private escaped(): i32 {
		const c = this.peek();
		this.at++;
		if (c == 0x74) return 0x09;
		if (c == 0x6e) return 0x0a;
		if (c == 0x72) return 0x0d;
		if (c <= 0x20 || c > 0x7e || isWord(c)) this.fail("there is an escape that it does not know");
		return c;
	}

	private set(): void {
		const negated = this.take(0x5e), ranges: i32[] = [];
		while (this.wrong.length == 0 && (ranges.length == 0 || !this.take(0x5d))) {
			const known = this.peek() == 0x5c ? classRanges(this.peek(1)) : [];
			if (this.peek() < 0) {
				this.fail("a ] is missing");
			} else if (this.peek() == 0x5b && this.peek(1) == 0x3a) {
				this.fail("it has a class by name");
			} else if (known.length > 0) {
				this.at += 2;
				for (let i = 0; i < known.length; i++) ranges.push(known[i]);
			} else {
				const from = this.character();
				let to = from;
				if (this.peek() == 0x2d && this.peek(1) >= 0 && this.peek(1) != 0x5d) {
					this.at++;
					to = this.character();
				}
				if (to < from) this.fail("a range is the wrong way round");
				ranges.push(from);
				ranges.push(to);
			}
		}
		this.emit(new Step(Op.Set, 0, 0, ranges, negated));
	}

	private character(): i32 {
		const c = this.peek();
		this.at++;
		return c == 0x5c ? this.escaped() : c;
	}

	/** Reports whether the pattern matches somewhere in a text. */
	matches(text: string): bool {
		const chars = charsOf(text), search = new Search(this.code);
		const threads: i32[] = [];
		for (let i = 0; i <= chars.length; i++) {
			search.begin(i > 0 ? chars[i - 1] : -1, i < chars.length ? chars[i] : -1);
			for (let k = 0; k < threads.length; k++) if (search.follow(threads[k])) return true;
			if (search.follow(0)) return true;
			threads.length = 0;
			for (let k = 0; k < search.reading.length && i < chars.length; k++) {
				const pc = search.reading[k];
				if (this.takes(this.code[pc], chars[i])) threads.push(pc + 1);
			}
		}
		return false;
	}

	private takes(step: Step, c: i32): bool {
		if (step.op == Op.Any) return this.lines || c != 0x0a;
		const other = this.fold && isLetter(c) ? c ^ 32 : c;
		if (step.op == Op.Char) return step.x == c || step.x == other;
		let found = false;
		for (let i = 0; i < step.ranges.length && !found; i += 2) {
			const from = step.ranges[i], to = step.ranges[i + 1];
			found = (c >= from && c <= to) || (other >= from && other <= to);
		}
		return found != step.negated;
	}
}

// A Search is the state of matching one text.
class Search {
	reading: i32[] = []; // the instructions that consume a character next
	private seen: StaticArray<i32>; // the last turn that reached each instruction
	private turn: i32 = 0;
	private before: i32 = -1;
	private after: i32 = -1;

	constructor(private code: Step[]) {
		this.seen = new StaticArray<i32>(code.length);
	}

	begin(before: i32, after: i32): void {
		this.turn++;
		this.reading.length = 0; // reuse it: memory is collected between hooks only
		this.before = before;
		this.after = after;
	}

	// follow adds an instruction, or those reachable from it without consuming a character. It
	// reports whether Match is one of them.
	follow(pc: i32): bool {
		if (this.seen[pc] == this.turn) return false;
		this.seen[pc] = this.turn;
		const step = this.code[pc], border = isWord(this.before) != isWord(this.after);
		switch (step.op) {
			case Op.Match:
				return true;
			case Op.Split:
				return this.follow(pc + step.x) || this.follow(pc + step.y);
			case Op.Jump:
				return this.follow(pc + step.x);
			case Op.Begin:
				return this.before < 0 && this.follow(pc + 1);
			case Op.End:
				return this.after < 0 && this.follow(pc + 1);
			case Op.Border:
				return border && this.follow(pc + 1);
			case Op.Inside:
				return !border && this.follow(pc + 1);
			default:
				this.reading.push(pc);
				return false;
		}
	}
}

function charsOf(text: string): i32[] {
	const out: i32[] = [];
	for (let i = 0; i < text.length; i++) {
		const c = text.codePointAt(i);
		if (c > 0xffff) i++;
		out.push(c);
	}
	return out;
}

function isLetter(c: i32): bool {
	return (c | 32) >= 0x61 && (c | 32) <= 0x7a;
}

function isWord(c: i32): bool {
	return c >= 0 && (isLetter(c) || c == 0x5f || (c >= 0x30 && c <= 0x39));
}
