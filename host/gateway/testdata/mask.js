import { defineMiddleware } from "@agent-runner/middleware";

const hidden = (content) =>
	typeof content === "string"
		? content.replaceAll("ann@example.com", "[MAIL]")
		: content?.map((p) => (p.type === "text" ? { ...p, text: hidden(p.text) } : p));

export default defineMiddleware({
	name: "mask",
	beforeModel({ request }) {
		const messages = request.messages.rewrite((m) =>
			JSON.stringify(m.content).includes("ann@example.com") ? { ...m, content: hidden(m.content) } : undefined,
		);
		return messages && { request: { messages } };
	},
});
