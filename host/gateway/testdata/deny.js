import { allow, defineMiddleware, deny } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "deny",
	gateTool: ({ call }) => (call.name === "delete_file" ? deny("files stay") : allow()),
});
