package server

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server/agents"
)

// TestAliases checks which version runs of an agent use, over each protocol that names agents.
func TestAliases(t *testing.T) {
	t.Parallel()
	script := make([]scripted.Reply, 20)
	for i := range script {
		script[i] = scripted.Text("hi")
	}
	f := platform(t, script...)
	for _, instruction := range []string{"one", "two", "three"} {
		r := f.apply(f.acme, "clerk", "model: {name: small}\ninstruction: "+instruction+"\n")
		require.Equal(t, 200, r.status, "%s", r.body)
	}
	start := func(name string, version int64) int64 {
		t.Helper()
		var run api.Run
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: name, Version: version, Input: "hi"}, &run)
		require.Equal(t, "clerk", run.Agent)
		return run.Version
	}
	require.Equal(t, int64(3), start("clerk", 0), "without aliases, the newest")
	var alias api.Alias
	f.ok("PUT", "/v1/agents/clerk/aliases/stable", f.acme, map[string]any{"version": 2, "reason": "good"}, &alias)
	require.Equal(t, int64(2), alias.Version)
	f.ok("PUT", "/v1/agents/clerk/aliases/old", f.acme, map[string]any{"version": 1}, nil)
	for name, want := range map[string]int64{"clerk": 2, "clerk@stable": 2, "clerk@old": 1, "clerk@3": 3} {
		require.Equal(t, want, start(name, 0), name)
		var a api.Agent
		f.ok("GET", "/v1/agents/"+name, f.acme, nil, &a)
		if name != "clerk" { // the name alone shows the newest version
			require.Equal(t, want, a.Version, name)
		}
		request := map[string]any{"model": name, "messages": []any{map[string]any{"role": "user", "content": "hi"}}}
		f.ok("POST", "/v1/chat/completions", f.acme, request, nil)
		require.Equal(t, want, f.newest().Version, name)
		f.ok("GET", "/v1/models/"+name, f.acme, nil, nil)
		r := f.send("POST", "/v1/agents/"+name+"/agui", f.acme, map[string]any{"threadId": name, "runId": "r",
			"messages": []any{map[string]any{"id": "1", "role": "user", "content": "hi"}}})
		require.Equal(t, 200, r.status, "%s", r.body)
		require.Equal(t, want, f.newest().Version, name)
	}
	require.Equal(t, int64(1), start("clerk", 1))
	f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: "clerk@old", Version: 1, Input: "hi"}).problem(t, 422)
	for name, status := range map[string]int{"clerk@none": 404, "clerk@9": 404, "clerk@": 422, "clerk@a@b": 422,
		"clerk@0": 422, "clerk@-1": 422, "none@stable": 404} {
		f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: name, Input: "hi"}).problem(t, status, name)
	}
	f.send("PUT", "/v1/agents/clerk/aliases/7", f.acme, map[string]any{"version": 1}).problem(t, 422)
	f.send("PUT", "/v1/agents/clerk/aliases/stable", f.acme, map[string]any{"version": 9}).problem(t, 404)
	f.send("PUT", "/v1/agents/clerk/aliases/stable", f.beta, map[string]any{"version": 1}).problem(t, 404)

	f.ok("DELETE", "/v1/agents/clerk/aliases/stable", f.acme, nil, nil)
	require.Equal(t, int64(3), start("clerk", 0))
	var out struct{ Moves []api.AliasMove }
	f.ok("GET", "/v1/agents/clerk/aliases/stable/moves", f.acme, nil, &out)
	require.Len(t, out.Moves, 2)
	require.Equal(t, []int64{2, 0, 0, 2}, []int64{out.Moves[0].From, out.Moves[0].To, out.Moves[1].From, out.Moves[1].To})
	require.Equal(t, "key "+keyID(f.acme), out.Moves[1].By)
	require.Equal(t, "good", out.Moves[1].Reason)
}

// newest returns acme's newest run.
func (f *fixture) newest() *api.Run {
	f.t.Helper()
	var out struct{ Runs []*api.Run }
	f.ok("GET", "/v1/runs?limit=1", f.acme, nil, &out)
	return out.Runs[0]
}

// FuzzParseRef checks that references that are accepted name a valid agent version or alias.
func FuzzParseRef(f *testing.F) {
	for _, text := range []string{"clerk", "clerk@stable", "clerk@3", "@", "a@b@c", "a@0x1", "a@99999999999999999999"} {
		f.Add(text, int64(0))
	}
	f.Fuzz(func(t *testing.T, text string, version int64) {
		ref, err := agents.ParseRef(text, version)
		if err != nil {
			return
		}
		require.True(t, ref.Alias == "" || ref.Version == 0)
		b, err := json.Marshal(ref.Alias)
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), 65)
		require.NotContains(t, ref.Name, "@")
	})
}
