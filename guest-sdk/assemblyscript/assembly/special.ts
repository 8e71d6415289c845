// Types with several JSON forms, and lists of messages.

import { Reader, Value, Writer } from "./json";
import { Failure, Message, Part, Splice, Tool } from "./types";
import * as host from "./host";

/** The content of a message or a result: text, parts, or null. */
export class Content extends Value {
	text: string | null = null;
	parts: Part[] | null = null;

	static of(text: string): Content {
		const c = new Content();
		c.text = text;
		return c;
	}

	/** The concatenated text of all parts. */
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

/** Changes a list of messages, by splices or by a new list. Splices refer to the list in the input. */
export class ListPatch extends Value {
	splices: Splice[] = [];
	whole: Message[] | null = null;

	/**
	 * Replaces messages at index at. Indices refer to the list in the input. They must
	 * ascend from call to call.
	 */
	splice(at: i32, remove: i32, insert: Message[]): void {
		const s = new Splice();
		s.at = at;
		s.remove = remove;
		s.insert = insert;
		this.splices.push(s);
	}

	/** Inserts a message before message at, or at the end. */
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

/** Changes a list of tools, by additions and removals or by a new list. */
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

/** A cache of a list's messages across hooks. */
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

/** The maximum number of messages fetched in one host call. */
const BLOCK: i32 = 64;

/** A list of messages. A message is copied to the module when it is first read. */
export class List extends Value {
	list: i32 = 0;
	revision: i64 = 0;
	total: i32 = 0;
	/** The messages, for a module whose description has messages: "full". */
	items: Message[] | null = null;

	get length(): i32 {
		return this.total;
	}

	/**
	 * Returns message i, from 0. Messages are fetched in blocks, which grow while they are
	 * read in one direction, and cached until they change.
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
	 * Returns the index of the first message that changed since an earlier revision: the
	 * length if nothing changed, 0 if the revision is unknown.
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
