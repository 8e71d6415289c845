// Forwards the model's text sentence by sentence, for a voice that reads it aloud, or a page that
// should not show partial sentences.
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

	// Forwards the answer as it arrives. Chunks other than text and reasoning follow the text
	// before them.
	wrapModel({ request }, ctx) {
		if (!request.stream) return { response: ctx.next() }; // not a stream
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
			// Forward the text up to a failure of the model.
			const rest = chunks(text.rest());
			if (rest.length > 0) ctx.send(rest);
		}
	},
});

const chunks = (texts: string[]): Chunk[] => texts.map((text) => ({ kind: "text", text }));

// A Cutter splits text that arrives in pieces into sentences. White space stays at the end of the
// sentence before it, unless that sentence already has the maximum length. The concatenated
// sentences equal the text.
class Cutter {
	private held = "";

	constructor(private readonly longest: number) {} // characters

	// add appends a piece, and returns the complete sentences.
	add(piece: string): string[] {
		this.held += piece;
		const out: string[] = [];
		for (let n; (n = this.end()) > 0; this.held = this.held.slice(n)) out.push(this.held.slice(0, n));
		return out;
	}

	// rest returns the remaining text as the last sentence, or nothing.
	rest(): string[] {
		const held = this.held;
		this.held = "";
		return held === "" ? [] : [held];
	}

	// end returns the end of the first sentence, including the white space after it, or 0 if it is
	// incomplete. A mark ends a sentence only before white space, so 3.14 and "?!" are not split.
	private end(): number {
		let state: "inside" | "marked" | "closed" = "inside"; // closed: after white space that follows a mark
		let [i, count, word] = [0, 0, 0];
		for (const c of this.held) { // code points, not UTF-16 units
			const space = /\p{White_Space}/u.test(c);
			if (state !== "inside" && space) state = "closed";
			else if (state === "closed") return i;
			else if (c === "\n") state = "closed";
			else if (".!?…".includes(c)) state = "marked";
			else if ("。！？".includes(c)) state = "closed"; // these need no space after them
			else if (state !== "marked" || !`"'”’»)]`.includes(c)) state = "inside";
			if (space) word = i + c.length;
			if (++count > this.longest) return word > 0 && word <= i ? word : i;
			i += c.length;
		}
		return 0;
	}
}
