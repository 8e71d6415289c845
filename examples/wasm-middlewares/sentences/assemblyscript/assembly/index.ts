// Forwards the model's text sentence by sentence, for a voice that reads it aloud, or a page that
// should not show partial sentences.
import {
	Chunk, ConfigureAnswer, ConfigureInput, Description, DescribeInput, Failure, WrapModelAnswer, WrapModelInput,
	describeAs, hook, host, invalid, parse, textChunk,
} from "../../../../../guest-sdk/assemblyscript/assembly";

export function describe(len: i32): i32 {
	return hook<DescribeInput, Description>(len, (_, answer) => {
		answer.config_schema =
			'{"type":"object","additionalProperties":false,"properties":{"longest":{"type":"integer",' +
			'"description":"how many characters are held at most; what is longer is cut between words"}}}';
		return describeAs(answer, "sentences", "1.0.0", "Hands the model's text on sentence by sentence.");
	});
}

let longest: i64 = 400;

export function configure(len: i32): i32 {
	return hook<ConfigureInput, ConfigureAnswer>(len, (input, _) => {
		const config = parse(input.config);
		if (config !== null) longest = config.wholeOf("longest", longest);
		return longest < 1 ? invalid(`config: longest: ${longest} is below 1`) : null;
	});
}

export function wrap_model(len: i32): i32 {
	return hook<WrapModelInput, WrapModelAnswer>(len, (input, _) => {
		if (!input.request.stream) return host.nextModel(null).failure; // not a stream
		const cutter = new Cutter();
		const failed = cutter.pass();
		// Forward the text up to a failure of the model.
		const failure = host.send(cutter.rest());
		return failure !== null ? failure : failed;
	});
}

const INSIDE = 0, MARKED = 1, CLOSED = 2; // after a mark, and after the white space that follows it

function isSpace(c: i32): bool {
	return c == 0x20 || (c >= 9 && c <= 13) || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
		c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// A Cutter splits text that arrives in pieces into sentences. White space stays at the end of the
// sentence before it, unless that sentence already has the maximum length. The concatenated
// sentences equal the text.
class Cutter {
	held: string = "";

	// pass forwards the answer as it arrives. Chunks other than text and reasoning follow the text
	// before them.
	pass(): Failure | null {
		let failure = host.nextModelStream(null);
		while (failure === null) {
			const got = host.recv();
			if (!got.ok) return got.failure;
			if (host.over(got.value)) break;
			let ready: Chunk[] = [];
			for (let i = 0; i < got.value.chunks.length; i++) {
				const c = got.value.chunks[i];
				if (c.kind == "text") {
					this.held += c.text;
					this.cut(ready);
					continue;
				}
				if (c.kind != "reasoning") ready = ready.concat(this.rest());
				ready.push(c);
			}
			failure = host.send(ready);
		}
		return failure;
	}

	// cut moves the complete sentences out of the held text.
	private cut(to: Chunk[]): void {
		for (let n = this.end(); n > 0; n = this.end()) {
			to.push(textChunk(this.held.substring(0, n)));
			this.held = this.held.substring(n);
		}
	}

	// rest returns the remaining text as the last sentence, or nothing.
	rest(): Chunk[] {
		const out: Chunk[] = this.held.length > 0 ? [textChunk(this.held)] : [];
		this.held = "";
		return out;
	}

	// end returns the end of the first sentence, including the white space after it, or 0 if it is
	// incomplete. A mark ends a sentence only before white space, so 3.14 and "?!" are not split.
	private end(): i32 {
		let state = INSIDE, word = 0;
		let count: i64 = 0;
		for (let i = 0; i < this.held.length; ) {
			const c = this.held.codePointAt(i), next = i + (c > 0xffff ? 2 : 1), text = this.held.substring(i, next);
			if (state != INSIDE && isSpace(c)) state = CLOSED;
			else if (state == CLOSED) return i;
			else if (c == 10 || "。！？".includes(text)) state = CLOSED; // these need no space after them
			else if (".!?…".includes(text)) state = MARKED;
			else if (state != MARKED || !"\"'”’»)]".includes(text)) state = INSIDE;
			if (isSpace(c)) word = next;
			if (++count > longest) return word > 0 && word <= i ? word : i;
			i = next;
		}
		return 0;
	}
}
