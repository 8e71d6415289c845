package servertest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/store"
)

// MaskModule is the source of a module that changes the user's message, the request, the arguments of tool
// calls, the stream and the model's answer.
const MaskModule = `import { defineMiddleware, textOf } from "@agent-runner/middleware";

const hidden = (text) => text.replace(/[\w.]+@[\w.]+\w/g, "[address]");

export default defineMiddleware({
	name: "mask", version: "1.2.0", description: "Hides addresses from the model.",
	configSchema: { type: "object", additionalProperties: false, properties: {
		words: { type: "array", items: { type: "string" }, description: "Hides these words, <b>too</b>." },
		mode: { type: "string", enum: ["replace", "remove"] },
		max: { type: "integer", minimum: 1, maximum: 10 },
		label: { type: "object", properties: { text: { type: "string", minLength: 2 }, shown: { type: "boolean" } } },
	} },
	beforeAgent: ({ messages }) => ({ messages: messages.rewrite((m) => (m.role === "user" ? { ...m, content: hidden(textOf(m)) } : undefined)) }),
	beforeModel: ({ request }) => ({ request: {
		messages: request.messages.rewrite((m) =>
			(m.role === "system" ? { ...m, content: textOf(m) + " <u>Be brief.</u>" } : undefined)),
		params: { temperature: 0 },
	} }),
	onChunk: ({ chunks }) => ({ chunks: chunks.map((c) =>
		(c.kind === "text" ? { ...c, text: c.text.replaceAll(",", ";") } : c)) }),
	beforeTool: ({ call }) => ({ arguments: JSON.stringify({ ...JSON.parse(call.arguments), dry: true }) }),
	afterModel({ response }, ctx) {
		ctx.log.info("looked at <b>an answer</b>");
		const { message } = response;
		if (typeof message.content !== "string" || !message.content.includes("done")) return;
		const content = message.content.replace("done", "finished, <i>as asked</i>");
		return { response: { ...response, message: { ...message, content } } };
	},
});
`

// A FailingStore is a store that fails to read modules while Err is not nil.
type FailingStore struct {
	store.Store
	Err error
}

// Module returns the bytes of a module, as [store.Store] describes.
func (s *FailingStore) Module(ctx context.Context, digest string) ([]byte, error) {
	if s.Err != nil {
		return nil, s.Err
	}
	return s.Store.Module(ctx, digest)
}

// Wasm returns the module with the given name of testdata/modules.
func Wasm(t *testing.T, name string) []byte {
	t.Helper()
	root, err := guestbuild.Root()
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(root, "testdata/modules", name))
	require.NoError(t, err)
	return b
}

// TypedModule is the source of a module in TypeScript.
const TypedModule = `import { middleware } from "@agent-runner/middleware";
export default { name: "shout", before_agent(input: { x: number }) { return {}; } };`

// PushModule uploads b as a module with the content type kind. query is the query of the URL, such
// as ?name=x, or empty.
func (f *Fixture) PushModule(key, query string, b []byte, kind string) *Reply {
	f.T.Helper()
	return f.Send("PUT", "/v1/modules"+query, key, b, "Content-Type", kind)
}

// LoudModule is the source of a module that changes answers to upper case, and logs.
const LoudModule = `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "loud",
	afterModel({ response }, ctx) {
		ctx.log.info("making it loud");
		const { message } = response;
		if (typeof message.content !== "string" || message.content === "") return;
		return { response: { ...response, message: { ...message, content: message.content.toUpperCase() } } };
	},
});
`

// Upload uploads a script as version 1 of a module, with an API key.
func (f *Fixture) Upload(key, name, source string) {
	f.T.Helper()
	r := f.Send(
		"PUT",
		"/v1/modules?name="+name+"&version=1",
		key,
		[]byte(source),
		"Content-Type",
		"application/javascript",
	)
	require.Less(f.T, r.Status, 300, "%s", r.Body)
}

// Scripts are the sources of small modules, by their names.
var Scripts = map[string]string{
	"plain": `export default { name: "plain", before_model() { return {}; } };`,
	"equal": `export default { name: "equal", before_model() { let n = 0; for (let i = 0; i < 10; i++) n += i; return {}; } };`,
	"deny":  `export default { name: "deny", gate_tool() { return { decision: "deny" }; } };`,
	"other": `export default { name: "other", before_model() { return { request: { params: { temperature: 0.5 } } }; } };`,
	"loops": `export default { name: "loops", before_model() { for (;;) {} } };`,
}
