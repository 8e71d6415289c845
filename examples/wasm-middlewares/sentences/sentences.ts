// Hands the model's text on sentence by sentence: for a voice that reads it out,
// or a reader who is not to see words come and go.
import { defineMiddleware, HookError } from "@agent-runner/middleware";
import type { Chunk } from "@agent-runner/middleware";

interface Config {
	longest?: number;
}

const longestOf = (config: Config) => config.longest ?? 400;

export default defineMiddleware<Config>({
	name: "sentences",
	version: "1.0.0",
	description: "Hands the model's text on sentence by sentence.",
	configSchema: {
		type: "object",
		additionalProperties: false,
		properties: {
			longest: { type: "integer", description: "how many characters are held at most; what is longer is cut between words" },
		},
	},

	configure(_, ctx) {
		const longest = longestOf(ctx.config);
		if (longest < 1) throw new HookError(`config: longest: ${longest} is below 1`, "invalid");
	},

	// The answer is read as it comes. What is no text goes on as it is, behind the
	// text that came before it.
	wrapModel({ request }, ctx) {
		if (!request.stream) return { response: ctx.next() }; // there is nobody who could hear it in pieces
		const text = new Cutter(longestOf(ctx.config));
		try {
			for (const batch of ctx.nextStream()) {
				const out: Chunk[] = [];
				for (const c of batch) {
					if (c.kind === "text") out.push(...chunks(text.add(c.text)));
					else if (c.kind === "reasoning") out.push(c);
					else out.push(...chunks(text.rest()), c);
				}
				if (out.length > 0) ctx.send(out);
			}
		} finally {
			// What was said before the model broke off is said.
			const rest = chunks(text.rest());
			if (rest.length > 0) ctx.send(rest);
		}
	},
});

const chunks = (texts: string[]): Chunk[] => texts.map((text) => ({ kind: "text", text }));

// A Cutter cuts text that comes in pieces into sentences, which put together are
// the text: white space stays at the end of the sentence before it, unless that is
// as long as may be already.
class Cutter {
	private held = "";

	constructor(private readonly longest: number) {} // characters

	// add adds a piece, and returns the sentences that have come to their end.
	add(piece: string): string[] {
		this.held += piece;
		const out: string[] = [];
		for (let n; (n = this.end()) > 0; this.held = this.held.slice(n)) out.push(this.held.slice(0, n));
		return out;
	}

	// rest returns what is left, as the last sentence; nothing if nothing is.
	rest(): string[] {
		const held = this.held;
		this.held = "";
		return held === "" ? [] : [held];
	}

	// end is where the first sentence ends, with the white space behind it; 0 if it
	// is not known yet. A mark ends one if white space follows: neither 3.14 nor
	// "?!" is cut in two.
	private end(): number {
		let state: "inside" | "marked" | "closed" = "inside"; // closed: behind white space that follows a mark
		let [i, count, word] = [0, 0, 0];
		for (const c of this.held) { // characters, not halves of them
			const space = /\p{White_Space}/u.test(c);
			if (state !== "inside" && space) state = "closed";
			else if (state === "closed") return i;
			else if (c === "\n") state = "closed";
			else if (".!?…".includes(c)) state = "marked";
			else if ("。！？".includes(c)) state = "closed"; // no space follows those
			else if (state !== "marked" || !`"'”’»)]`.includes(c)) state = "inside";
			if (space) word = i + c.length;
			if (++count > this.longest) return word > 0 && word <= i ? word : i;
			i += c.length;
		}
		return 0;
	}
}
