// Counts the tool calls of a run. If a tool exceeds its limit, the call is denied or needs a
// person's approval.
import { allow, ask, defineMiddleware, deny } from "@agent-runner/middleware";

interface Config {
	limits: Record<string, number>;
	then?: "ask" | "deny";
}

export default defineMiddleware<Config>({
	name: "call-budget",
	version: "1.0.0",
	description: "Limits how often tools are called in a run.",
	configSchema: {
		type: "object",
		required: ["limits"],
		additionalProperties: false,
		properties: {
			limits: { type: "object", additionalProperties: { type: "integer", minimum: 0 } },
			then: { type: "string", enum: ["ask", "deny"] },
		},
	},

	gateTool({ call }, ctx) {
		const { limits, then } = ctx.config;
		const counted = call.name in limits ? call.name : "*";
		const most = limits[counted];
		if (most === undefined) return allow();
		const n = ctx.local.add(`calls of ${counted}`);
		if (n <= most) return allow();
		ctx.emit("over budget", { tool: call.name, calls: n });
		const text = `${counted === "*" ? "Other tools" : call.name} may be called ${most} times in a run. Go on without.`;
		return then === "ask" ? ask(text, { calls: n, most }) : deny(text);
	},
});
