package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestDryRun checks that a stored run is replayed with a draft that is not stored, and which keys may
// replay which runs.
func TestDryRun(t *testing.T) {
	t.Parallel()
	f, ids := replayFixture(t, 1)
	try := func(key, agent, run, middlewares string) *servertest.Reply {
		return f.Send("POST", "/v1/runs/"+run+"/dry-run?agent="+agent, key,
			[]byte("model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares: ["+middlewares+"]\n"),
			"Content-Type", "application/yaml")
	}
	for _, tt := range []struct{ agent, middlewares, outcome string }{
		{"clerk", "{module: plain}", "same"},
		{"clerk", "{module: plain}, {module: deny}", "diverged"},
		{"draft", "{module: deny}", "diverged"}, // an agent that does not exist
		{"clerk", "{module: loops, limits: {timeout: 50ms}}", "failed"},
	} {
		r := try(f.Acme, tt.agent, ids[0], tt.middlewares)
		require.Equal(t, 200, r.Status, "%s", r.Body)
		var result api.ReplayedRun
		require.NoError(t, json.Unmarshal(r.Body, &result))
		require.Equal(t, tt.outcome, result.Outcome, "%s: %s", tt.middlewares, r.Body)
		require.Equal(t, ids[0], result.Run)
	}
	f.Send("GET", "/v1/agents/draft", f.Acme, nil).Problem(t, 404)
	var a api.Agent
	f.OK("GET", "/v1/agents/clerk", f.Acme, nil, &a)
	require.Equal(t, int64(1), a.Version)

	p := try(f.Acme, "clerk", ids[0], "{module: plain, grants: [\"http:*\"]}").Problem(t, 422)
	require.NotEmpty(t, p.Errors, "the file is not allowed")
	try(f.Acme, "clerk", "run_other", "{module: plain}").Problem(t, 404)
	try(f.Acme, "No%20Name", ids[0], "").Problem(t, 422)
	try(f.Beta, "clerk", ids[0], "").Problem(t, 404)
	try(f.Key("acme", string(httpapi.AgentsWrite)), "clerk", ids[0], "").Problem(t, 403)
	try(f.Key("acme", string(httpapi.RunsRead)), "clerk", ids[0], "").Problem(t, 403)
}
