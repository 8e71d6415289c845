// The types whose JSON has several forms, and lists of messages.

import { Reader, Value, Writer } from "./json";
import { Failure, Message, Part, Splice, Tool } from "./types";
import * as host from "./host";

/** What a message or a result says: a text, or else parts, or else nothing. */
export class Content extends Value {
	text: string | null = null;
	parts: Part[] | null = null;

	static of(text: string): Content {
		const c = new Content();
		c.text = text;
		return c;
	}

	/** The text, of all parts together. */
	plain(): string {
		const text = this.text, parts = this.parts;
		if (text !== null) return text;
		let out = "";
		if (parts !== null) for (let i = 0; i < parts.length; i++) out += parts[i].text;
		return out;
	}

	read(r: Reader): void {
		if (r.none()) return;
		if (r.peek() == 0x22) this.text = r.text();
		else this.parts = r.list<Part>();
	}

	write(w: Writer): void {
		const text = this.text, parts = this.parts;
		if (text !== null) w.text(text);
		else if (parts !== null) w.list<Part>(parts);
		else w.raw("null");
	}
}

/** Changes a list of messages: splices of the list as it was shown, or a whole new list. */
export class ListPatch extends Value {
	splices: Splice[] = [];
	whole: Message[] | null = null;

	/**
	 * Puts messages in the place of some at index at. Indices are those of the list
	 * as it was shown, and ascend from call to call.
	 */
	splice(at: i32, remove: i32, insert: Message[]): void {
		const s = new Splice();
		s.at = at;
		s.remove = remove;
		s.insert = insert;
		this.splices.push(s);
	}

	/** Puts a message before message at, or at the end. */
	insert(at: i32, message: Message): void {
		this.splice(at, 0, [message]);
	}

	set(at: i32, message: Message): void {
		this.splice(at, 1, [message]);
	}

	delete(from: i32, to: i32): void {
		this.splice(from, to - from, []);
	}

	read(r: Reader): void {
		if (r.peek() == 0x5b) this.whole = r.list<Message>();
		else super.read(r);
	}

	readField(key: string, r: Reader): bool {
		if (key != "splice") return false;
		this.splices = r.list<Splice>();
		return true;
	}

	write(w: Writer): void {
		const whole = this.whole;
		if (whole !== null) w.list<Message>(whole);
		else super.write(w);
	}

	writeFields(w: Writer): void {
		w.listField<Splice>("splice", this.splices);
	}

	isEmpty(): bool {
		return this.whole === null && this.splices.length == 0;
	}
}

/** Changes a list of tools: some added and removed, or a whole new list. */
export class ToolsPatch extends Value {
	add: Tool[] = [];
	remove: string[] = [];
	whole: Tool[] | null = null;

	read(r: Reader): void {
		if (r.peek() == 0x5b) this.whole = r.list<Tool>();
		else super.read(r);
	}

	readField(key: string, r: Reader): bool {
		if (key == "add") this.add = r.list<Tool>();
		else if (key == "remove") this.remove = r.texts();
		else return false;
		return true;
	}

	write(w: Writer): void {
		const whole = this.whole;
		if (whole !== null) w.list<Tool>(whole);
		else super.write(w);
	}

	writeFields(w: Writer): void {
		if (this.add.length > 0) w.listField<Tool>("add", this.add);
		if (this.remove.length > 0) w.textsField("remove", this.remove);
	}

	isEmpty(): bool {
		return this.whole === null && this.add.length == 0 && this.remove.length == 0;
	}
}

/** What was pulled of a list, across hooks. It is only a cache. */
class Pulled {
	known: Array<Message | null> = [];
	from: i32 = 0;
	to: i32 = 0;
	block: i32 = 0;

	constructor(public revision: i64, total: i32) {
		for (let i = 0; i < total; i++) this.known.push(null);
	}
}

const pulled: Array<Pulled | null> = [null, null];

/** How many messages one call of the host pulls at most. */
const BLOCK: i32 = 64;

/** A list of messages, which stays with the host until it is looked at. */
export class List extends Value {
	list: i32 = 0;
	revision: i64 = 0;
	total: i32 = 0;
	/** The messages, for a module whose description says "full". */
	items: Message[] | null = null;

	get length(): i32 {
		return this.total;
	}

	/**
	 * Message i, from 0. Reads come in blocks that grow while they go on in one
	 * direction, and what was read is remembered until it changes.
	 */
	at(i: i32): host.Reply<Message> {
		if (i < 0 || i >= this.total)
			return host.Reply.failed<Message>(Failure.of("invalid", `there is no message ${i} in a list of ${this.total}`));
		const items = this.items;
		if (items !== null && i < items.length) return host.Reply.of<Message>(items[i]);
		const p = this.cache();
		const known = p.known[i];
		if (known !== null) return host.Reply.of<Message>(known);
		const on = p.block > 0 && i == p.to, back = p.block > 0 && i == p.from - 1;
		p.block = on || back ? min<i32>(p.block * 4, BLOCK) : 1;
		let from = back ? max<i32>(i - p.block + 1, 0) : i, to = back ? i + 1 : min<i32>(i + p.block, this.total);
		while (p.known[from] !== null) from++;
		while (p.known[to - 1] !== null) to--;
		p.from = from;
		p.to = to;
		const reply = host.messages(this.list, from, to);
		if (!reply.ok) return host.Reply.failed<Message>(reply.failure!);
		const got = reply.value;
		if (got.length != to - from) return host.Reply.failed<Message>(Failure.of("internal", "the host gave another number of messages"));
		for (let k = 0; k < got.length; k++) p.known[from + k] = got[k];
		return host.Reply.of<Message>(got[i - from]);
	}

	/**
	 * The first index at which the list is not what it was at an earlier revision:
	 * its length if nothing changed, 0 if nobody knows.
	 */
	changedSince(revision: i64): i32 {
		return max<i32>(min<i32>(host.changed(this.list, revision), this.total), 0);
	}

	private cache(): Pulled {
		const old = pulled[this.list & 1];
		if (old !== null && old.revision == this.revision) return old;
		const p = new Pulled(this.revision, this.total);
		if (old !== null) {
			const same = min<i32>(this.changedSince(old.revision), old.known.length);
			for (let i = 0; i < same; i++) p.known[i] = old.known[i];
		}
		pulled[this.list & 1] = p;
		return p;
	}

	readField(key: string, r: Reader): bool {
		if (key == "list") this.list = r.small();
		else if (key == "revision") this.revision = r.whole();
		else if (key == "total") this.total = r.small();
		else if (key == "items") this.items = r.none() ? null : r.list<Message>();
		else return false;
		return true;
	}

	writeFields(w: Writer): void {
		w.wholeField("list", this.list);
		w.wholeField("revision", this.revision);
		w.wholeField("total", this.total);
		const items = this.items;
		if (items !== null) w.listField<Message>("items", items);
	}
}
