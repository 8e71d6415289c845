package agentfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	t.Parallel()
	f, err := Parse("agent.yaml", []byte(`
name: clerk
model: {name: m, params: {temperature: 0.5}, retries: 0, fallbacks: [{name: n, base_url: "https://example.com/v1"}]}
instruction: |
  Be brief: "two" words.
tools:
  builtin: []
  root: /srv/files
  mcp:
    - command: npx -y "some server"
      env: {A: b}
stream: false
middlewares:
  - module: /m/policy.wasm
    name: policy
    config: {deny: [a, 1.50, null]}
    limits: {timeout: 1m30s, memory: 3MiB, fuel: 7}
    grants: [read:last, "tool:x", store]
    on_fault: skip
limits: {timeout: 2h, max_steps: 3, models: []}
`))
	require.NoError(t, err)
	text, err := Text(f)
	require.NoError(t, err)
	got, err := Parse("kept", text)
	require.NoError(t, err, "%s", text)
	again, err := Text(got)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	require.Equal(t, f.Tools, got.Tools)
	require.Equal(t, f.Model, got.Model)
	require.Equal(t, f.Limits, got.Limits)
	require.Equal(t, f.Stream, got.Stream)
	require.JSONEq(t, string(f.Middlewares[0].Config), string(got.Middlewares[0].Config))
}
