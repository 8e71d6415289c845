package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/openaitest"
)

func newHost(t *testing.T) *host.Host {
	t.Helper()
	h, err := host.New(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	return h
}

func serve(t *testing.T, replies ...scripted.Reply) *openaitest.Server {
	t.Helper()
	s, err := openaitest.New(scripted.New(replies...))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// load writes an agent file and loads it. It replaces $MODULES with the folder of the test modules,
// and each placeholder in values, such as $FIRST, with the value that follows the placeholder.
func load(t *testing.T, text string, values ...string) *agentfile.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	modules, err := filepath.Abs("../testdata/modules")
	require.NoError(t, err)
	text = strings.NewReplacer(append(values, "$MODULES", modules)...).Replace(text)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f, err := agentfile.Load(path)
	require.NoError(t, err)
	return f
}

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestAnAgentOutOfItsFile(t *testing.T) {
	t.Parallel()
	f := load(t, `
model: {name: m}
tools: {builtin: [calculator]}
middlewares:
  - {module: $MODULES/puppet.wasm, name: first, config: {do: x}}
  - {module: $MODULES/no-tools.wasm}
rings:
  outer: [{module: $MODULES/puppet.wasm, name: outer, config: {do: x}}]
  inner: [{module: $MODULES/puppet.wasm, name: inner, config: {do: x}}]
`)
	m := scripted.New(scripted.Calls(abi.NewToolCall("c", "calculator", `{"expression": "1"}`)), scripted.Text("done"))
	a, err := newHost(t).NewAgentFromFile(t.Context(), f, &host.FileOptions{Model: m})
	require.NoError(t, err)
	defer a.Close()
	var order []string
	for e := range a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User("hi")}}) {
		switch {
		case e.Type == abi.EventCustom && e.Hook == contract.HookBeforeAgent:
			order = append(order, e.Entry)
		case e.Type == abi.EventToolResult:
			require.Equal(t, "no-tools", e.Source)
		}
	}
	require.Equal(t, []string{"outer", "first", "inner"}, order)
	require.Len(t, m.Requests()[0].Tools, 1)
}

// TestKeysOfEndpoints checks that a key is sent only to its own endpoint.
func TestKeysOfEndpoints(t *testing.T) {
	t.Parallel()
	busy := scripted.Reply{Err: &model.Error{Code: abi.CodeModel, Message: "busy", Status: 503}}
	first, second := serve(t, busy, busy), serve(t, busy, scripted.Text("hello"))
	f := load(t, `
model:
  name: a
  base_url: $FIRST
  retries: 0
  fallbacks:
    - {name: b}
    - {name: c, base_url: $SECOND}
    - {name: d, base_url: $SECOND, api_key_env: SECOND_KEY}
`, "$FIRST", first.URL, "$SECOND", second.URL)
	var attempts []string
	a, err := newHost(t).NewAgentFromFile(t.Context(), f, &host.FileOptions{
		Getenv: env(map[string]string{"OPENAI_API_KEY": "one", "SECOND_KEY": "two"}),
	})
	require.NoError(t, err)
	defer a.Close()
	var answer *abi.Message
	for e, err := range a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User("hi")}}) {
		require.NoError(t, err)
		if e.Type == abi.EventModelAttempt {
			attempts = append(attempts, e.Model+">"+e.Next)
		}
		answer = e.Message
	}
	require.Equal(t, "hello", answer.Content.String())
	require.Equal(t, []string{"a>b", "b>c", "c>d"}, attempts)
	keys := func(s *openaitest.Server) (out []string) {
		for _, r := range s.Requests() {
			out = append(out, r.Header.Get("Authorization"))
		}
		return out
	}
	require.Equal(t, []string{"Bearer one", "Bearer one"}, keys(first))
	require.Equal(t, []string{"", "Bearer two"}, keys(second))
}

func TestWhatIsWrongWithAFile(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for name, c := range map[string]struct{ text, want string }{
		"no model": {"name: x\n", "the agent has no model"},
		"no key of a fallback": {"model: {name: echo, fallbacks: [{name: m}]}\n",
			"agent.yaml:1:34: no key for m: set OPENAI_API_KEY"},
		"no key":         {"model: {name: m}\n", "no key for m: set OPENAI_API_KEY, name an endpoint that needs none"},
		"key of a name":  {"model: {name: m, api_key_env: MY_KEY}\n", "agent.yaml:1:18: the environment variable MY_KEY, for the key of m, is not set"},
		"fallback's key": {"model: {name: m, base_url: 'http://x', fallbacks: [{name: n, api_key_env: MY_KEY}]}\n", "MY_KEY, for the key of n, is not set"},
		"refused module": {"model: {name: m, base_url: 'http://x'}\nmiddlewares:\n  - module: $MODULES/refused/no-memory.wasm\n", "agent.yaml:3:5: "},
		"first of two": {"model: {name: m, base_url: 'http://x'}\nmiddlewares:\n  - module: $MODULES/refused/no-memory.wasm\n" +
			"  - module: $MODULES/refused/wrong-hook.wasm\n", "does not export its memory"},
		"limits":     {"model: {name: m, base_url: 'http://x'}\nmiddlewares:\n  - {module: $MODULES/puppet.wasm, limits: {module_bytes: 100}}\n", "agent.yaml:3:6: "},
		"mcp":        {"model: {name: m, base_url: 'http://x'}\ntools:\n  mcp:\n    - command: no-such-program\n", "agent.yaml:4:7: MCP server \"no-such-program\": there is no program"},
		"mcp's key":  {"model: {name: m, base_url: 'http://x'}\ntools:\n  mcp:\n    - {url: 'http://x', api_key_env: MY_KEY}\n", "MY_KEY, for the key of MCP server x, is not set"},
		"no tool":    {"model: {name: m, base_url: 'http://x'}\nreturn_directly: [launch]\ntools: {builtin: []}\n", ""},
		"two of one": {"model: {name: m, base_url: 'http://x'}\nmiddlewares: [{module: $MODULES/puppet.wasm, config: [1]}]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := h.NewAgentFromFile(t.Context(), load(t, c.text), &host.FileOptions{Getenv: env(nil)})
			if c.want == "" {
				require.NoError(t, err, "a module may add the tool, and takes any configuration")
				a.Close()
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestCanceledBeforeItIsThere(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := load(t, "middlewares: [{module: $MODULES/puppet.wasm}]\n")
	_, err := newHost(t).NewAgentFromFile(ctx, f, &host.FileOptions{Model: scripted.New()})
	require.ErrorIs(t, err, context.Canceled)
}
