import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "loud",
	onChunk: ({ chunks }) => ({
		chunks: chunks.map((c) => (c.kind === "text" ? { ...c, text: c.text.replaceAll("sunny", "SUNNY") } : c)),
	}),
});
