package agents_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestAliases checks which version runs of an agent use, over each protocol that names agents.
func TestAliases(t *testing.T) {
	t.Parallel()
	script := make([]scripted.Reply, 20)
	for i := range script {
		script[i] = scripted.Text("hi")
	}
	f := servertest.NewWithReplies(t, script...)
	for _, instruction := range []string{"one", "two", "three"} {
		r := f.Apply(f.Acme, "clerk", "model: {name: small}\ninstruction: "+instruction+"\n")
		require.Equal(t, 200, r.Status, "%s", r.Body)
	}
	start := func(name string, version int64) int64 {
		t.Helper()
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: name, Version: version, Input: "hi"}, &run)
		require.Equal(t, "clerk", run.Agent)
		return run.Version
	}
	require.Equal(t, int64(3), start("clerk", 0), "without aliases, the newest")
	var alias api.Alias
	f.OK("PUT", "/v1/agents/clerk/aliases/stable", f.Acme, map[string]any{"version": 2, "reason": "good"}, &alias)
	require.Equal(t, int64(2), alias.Version)
	f.OK("PUT", "/v1/agents/clerk/aliases/old", f.Acme, map[string]any{"version": 1}, nil)
	for name, want := range map[string]int64{"clerk": 2, "clerk@stable": 2, "clerk@old": 1, "clerk@3": 3} {
		require.Equal(t, want, start(name, 0), name)
		var a api.Agent
		f.OK("GET", "/v1/agents/"+name, f.Acme, nil, &a)
		if name != "clerk" { // the name alone shows the newest version
			require.Equal(t, want, a.Version, name)
		}
		request := map[string]any{"model": name, "messages": []any{map[string]any{"role": "user", "content": "hi"}}}
		f.OK("POST", "/v1/chat/completions", f.Acme, request, nil)
		require.Equal(t, want, newest(f).Version, name)
		f.OK("GET", "/v1/models/"+name, f.Acme, nil, nil)
		r := f.Send("POST", "/v1/agents/"+name+"/agui", f.Acme, map[string]any{"threadId": name, "runId": "r",
			"messages": []any{map[string]any{"id": "1", "role": "user", "content": "hi"}}})
		require.Equal(t, 200, r.Status, "%s", r.Body)
		require.Equal(t, want, newest(f).Version, name)
	}
	require.Equal(t, int64(1), start("clerk", 1))
	f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "clerk@old", Version: 1, Input: "hi"}).Problem(t, 422)
	for name, status := range map[string]int{"clerk@none": 404, "clerk@9": 404, "clerk@": 422, "clerk@a@b": 422,
		"clerk@0": 422, "clerk@-1": 422, "none@stable": 404} {
		f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: name, Input: "hi"}).Problem(t, status, name)
	}
	f.Send("PUT", "/v1/agents/clerk/aliases/7", f.Acme, map[string]any{"version": 1}).Problem(t, 422)
	f.Send("PUT", "/v1/agents/clerk/aliases/stable", f.Acme, map[string]any{"version": 9}).Problem(t, 404)
	f.Send("PUT", "/v1/agents/clerk/aliases/stable", f.Beta, map[string]any{"version": 1}).Problem(t, 404)

	f.OK("DELETE", "/v1/agents/clerk/aliases/stable", f.Acme, nil, nil)
	require.Equal(t, int64(3), start("clerk", 0))
	var out struct{ Moves []api.AliasMove }
	f.OK("GET", "/v1/agents/clerk/aliases/stable/moves", f.Acme, nil, &out)
	require.Len(t, out.Moves, 2)
	require.Equal(t, []int64{2, 0, 0, 2}, []int64{out.Moves[0].From, out.Moves[0].To, out.Moves[1].From, out.Moves[1].To})
	require.Equal(t, "key "+servertest.KeyID(f.Acme), out.Moves[1].By)
	require.Equal(t, "good", out.Moves[1].Reason)
}

// newest returns acme's newest run.
func newest(f *servertest.Fixture) *api.Run {
	f.T.Helper()
	var out struct{ Runs []*api.Run }
	f.OK("GET", "/v1/runs?limit=1", f.Acme, nil, &out)
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
