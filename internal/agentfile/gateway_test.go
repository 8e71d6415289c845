package agentfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

func TestGatewayErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no routes":       {"listen: 127.0.0.1:1", "no routes; a gateway needs at least one"},
		"no protocol":     {"routes:\n  - models: [a]", "gateway.yaml:2:5: the route has no protocol; want one of chat, responses, messages"},
		"other protocol":  {"routes: [{protocol: mesages}]", `did you mean "messages"?`},
		"pattern":         {"routes: [{protocol: chat, models: ['a[']}]", `models: "a[" is not a valid pattern`},
		"upstream":        {"routes: [{protocol: chat, upstream: 'https://api.openai.com/v1'}]", "upstream: leave out /v1"},
		"upstream's user": {"routes: [{protocol: chat, upstream: 'https://me:x@example.com'}]", "upstream: want a URL without a user"},
		"unknown key":     {"routes: [{protocol: chat, midlewares: []}]", `unknown key "midlewares"`},
		"key":             {"keys: [{name: a}]\nroutes: [{protocol: chat}]", "a key needs a name and env"},
		"two keys":        {"keys: [{name: a, env: A}, {name: a, env: B}]\nroutes: [{protocol: chat}]", `two keys are named "a"`},
		"rate":            {"keys: [{name: a, env: A, requests_per_minute: -1}]\nroutes: [{protocol: chat}]", "requests_per_minute: want"},
		"budget":          {"keys: [{name: a, env: A, budget: {per: day}}]\nroutes: [{protocol: chat}]", "budget: want tokens or cost"},
		"negative budget": {"keys: [{name: a, env: A, budget: {tokens: -1}}]\nroutes: [{protocol: chat}]", "budget: want tokens above 0"},
		"endless budget":  {"keys: [{name: a, env: A, budget: {cost: .nan}}]\nroutes: [{protocol: chat}]", "cost: want a number"},
		"period":          {"keys: [{name: a, env: A, budget: {tokens: 1, per: year}}]\nroutes: [{protocol: chat}]", "period"},
		"no prices":       {"keys: [{name: a, env: A, budget: {cost: 1}}]\nroutes: [{protocol: chat}]", "a budget in money needs prices"},
		"approver":        {"approver: {timeout: 5s}\nroutes: [{protocol: chat}]", "approver: want url"},
		"approver's time": {"approver: {url: 'http://a', timeout: 2h}\nroutes: [{protocol: chat}]", "at most 1h"},
		"metrics":         {"metrics: here\nroutes: [{protocol: chat}]", "metrics: \"here\" is not an address"},
		"memory":          {"max_memory: 1KiB\nroutes: [{protocol: chat}]", "max_memory: want at least 1MiB"},
		"requests":        {"max_requests: -1\nroutes: [{protocol: chat}]", "max_requests: want a number from 1"},
		"timeout":         {"timeout: 25h\nroutes: [{protocol: chat}]", "timeout: want a duration above 0, at most 24h"},
		"module's limit":  {"routes: [{protocol: chat, middlewares: [{module: a.wasm, limits: {instances: -1}}]}]", "instances"},
		"same names": {
			"routes: [{protocol: chat, middlewares: [{module: a.wasm}, {module: b/a.wasm}]}]", `"a"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := agentfile.ParseGateway("gateway.yaml", []byte(c.text))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestGatewayFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, module := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "guard.wasm")
	require.NoError(t, os.WriteFile(module, nil, 0o600))
	require.NoError(
		t,
		os.WriteFile(path, []byte("routes: [{protocol: messages, middlewares: [{module: guard.wasm}]}]"), 0o600),
	)
	g, err := agentfile.LoadGateway(path)
	require.NoError(t, err)
	require.Equal(t, []string{path, module}, g.Files())
	r := &g.Routes[0]
	require.Equal(t, "messages", r.Name)
	require.Equal(t, agentfile.URL("https://api.anthropic.com"), r.Upstream)
	require.Equal(t, "guard", r.Chain().Middlewares[0].Name)

	g, err = agentfile.ParseGateway(path, []byte("routes: [{protocol: chat, upstream_protocol: messages}]"))
	require.NoError(t, err)
	require.Equal(t, agentfile.URL("https://api.anthropic.com"), g.Routes[0].Upstream)

	require.NoError(t, os.Remove(module))
	_, err = agentfile.LoadGateway(path)
	require.ErrorContains(t, err, "paths are relative to this file")
	_, err = agentfile.LoadGateway(dir)
	require.ErrorContains(t, err, "want the path of a gateway.yaml")
}

func FuzzParseGateway(f *testing.F) {
	f.Add([]byte("routes: [{protocol: chat, models: ['*'], middlewares: [{module: a.wasm}]}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, err := agentfile.ParseGateway("gateway.yaml", b); err == nil {
			require.NotEmpty(t, g.Routes)
			require.NotNil(t, g.Routes[0].Chain())
		}
	})
}
