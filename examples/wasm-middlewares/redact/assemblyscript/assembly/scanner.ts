// Redacts several kinds of data in whole texts and in texts that arrive in pieces.
import { Failure, host } from "../../../../../guest-sdk/assemblyscript/assembly";
import { CARD, IBAN, KINDS, Span, alnum, find, open } from "./kinds";

/** The number of matches of each kind. */
export class Finds {
	private counts: i32[] = [0, 0, 0, 0];

	add(kind: i32): void {
		this.counts[kind]++;
	}

	/** Emits an event with the counts, without the data. */
	tell(where: string): Failure | null {
		const found: string[] = [];
		for (let i = 0; i < KINDS.length; i++) if (this.counts[i] > 0) found.push(`"${KINDS[i]}":${this.counts[i]}`);
		return found.length > 0 ? host.emit("redacted", `{"in":"${where}","found":{${found.join(",")}}}`) : null;
	}
}

/** The end of a text that may still become part of a match. */
export class Tail {
	before: string = ""; // the character before it
	text: string = "";
}

export class Scanner {
	detect: i32[] = [0, 1, 2, 3];
	mask: bool = false;

	/** Redacts a complete text. */
	all(text: string, finds: Finds): string {
		return this.next(new Tail(), text, true, finds);
	}

	/**
	 * Appends a piece to a tail and returns the text to release: everything before the first possible match that is
	 * still incomplete, with complete matches replaced. With the last piece it returns everything.
	 */
	next(tail: Tail, piece: string, last: bool, finds: Finds): string {
		const text = tail.before + tail.text + piece, from = tail.before.length;
		const spans = this.find(text, from), cut = last ? text.length : this.cut(text, from, spans);
		let out = "", at = from;
		for (let i = 0; i < spans.length && spans[i].from < cut; i++) {
			const s = spans[i];
			out += text.substring(at, s.from) + this.instead(s.kind, text.substring(s.from, s.to));
			finds.add(s.kind);
			at = s.to;
		}
		if (at < cut) out += text.substring(at, cut);
		tail.before = text.substring(max(cut - 1, 0), cut);
		tail.text = text.substring(cut);
		return out;
	}

	// find returns the matches of all kinds, merged where they overlap.
	private find(text: string, from: i32): Span[] {
		const all: Span[] = [], apart: Span[] = [];
		for (let i = 0; i < this.detect.length; i++) find(this.detect[i], text, from, all);
		all.sort((a, b) => a.from - b.from);
		for (let i = 0; i < all.length; i++) {
			const s = all[i], n = apart.length;
			if (n > 0 && s.from < apart[n - 1].to) apart[n - 1].to = max(apart[n - 1].to, s.to);
			else apart.push(s);
		}
		return apart;
	}

	// cut returns the end of the text that more text cannot change. It is never within a match.
	private cut(text: string, from: i32, spans: Span[]): i32 {
		let cut = text.length;
		for (let i = 0; i < this.detect.length; i++) cut = min(cut, open(this.detect[i], text, from));
		for (let i = 0; i < spans.length; i++) if (spans[i].from < cut && cut < spans[i].to) return spans[i].from;
		return cut;
	}

	private instead(kind: i32, found: string): string {
		if (!this.mask) return `[REDACTED_${KINDS[kind].toUpperCase()}]`;
		const keep = kind == CARD || kind == IBAN ? 4 : 0;
		let left = 0, out = "";
		for (let i = 0; i < found.length; i++) if (alnum(found.charCodeAt(i))) left++;
		for (let i = 0; i < found.length; i++) {
			const plain = alnum(found.charCodeAt(i));
			out += plain && left > keep ? "*" : found.charAt(i);
			if (plain) left--;
		}
		return out;
	}
}
