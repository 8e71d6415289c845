package server

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// TestDryRun checks that a stored run is replayed with a draft that is not stored, and which keys may
// replay which runs.
func TestDryRun(t *testing.T) {
	t.Parallel()
	f, ids := replayFixture(t, 1)
	try := func(key, agent, run, middlewares string) *reply {
		return f.send("POST", "/v1/runs/"+run+"/dry-run?agent="+agent, key,
			[]byte("model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares: ["+middlewares+"]\n"),
			"Content-Type", "application/yaml")
	}
	for _, tt := range []struct{ agent, middlewares, outcome string }{
		{"clerk", "{module: plain}", "same"},
		{"clerk", "{module: plain}, {module: deny}", "diverged"},
		{"draft", "{module: deny}", "diverged"}, // an agent that does not exist
		{"clerk", "{module: loops, limits: {timeout: 50ms}}", "failed"},
	} {
		r := try(f.acme, tt.agent, ids[0], tt.middlewares)
		require.Equal(t, 200, r.status, "%s", r.body)
		var result api.ReplayedRun
		require.NoError(t, json.Unmarshal(r.body, &result))
		require.Equal(t, tt.outcome, result.Outcome, "%s: %s", tt.middlewares, r.body)
		require.Equal(t, ids[0], result.Run)
	}
	f.send("GET", "/v1/agents/draft", f.acme, nil).problem(t, 404)
	var a api.Agent
	f.ok("GET", "/v1/agents/clerk", f.acme, nil, &a)
	require.Equal(t, int64(1), a.Version)

	p := try(f.acme, "clerk", ids[0], "{module: plain, grants: [\"http:*\"]}").problem(t, 422)
	require.NotEmpty(t, p.Errors, "the file is not allowed")
	try(f.acme, "clerk", "run_other", "{module: plain}").problem(t, 404)
	try(f.acme, "No%20Name", ids[0], "").problem(t, 422)
	try(f.beta, "clerk", ids[0], "").problem(t, 404)
	try(f.key("acme", string(httpapi.AgentsWrite)), "clerk", ids[0], "").problem(t, 403)
	try(f.key("acme", string(httpapi.RunsRead)), "clerk", ids[0], "").problem(t, 403)
}
