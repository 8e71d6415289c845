package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// TestTokenEndsRequests checks that the requests in flight of a token end soon after it was deleted, or its key was
// revoked. Runs that a request only started or reads go on, and so do the requests of others.
func TestTokenEndsRequests(t *testing.T) {
	t.Parallel()
	hang := scripted.Reply{Hang: true}
	for name, end := range map[string]func(f *fixture, k *api.Token, key string){
		"deleted": func(f *fixture, k *api.Token, _ string) { f.ok("DELETE", "/v1/tokens/"+k.ID, f.acme, nil, nil) },
		"key":     func(f *fixture, _ *api.Token, key string) { f.ok("DELETE", "/v1/keys/"+keyID(key), f.acme, nil, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := platform(t, hang, hang, hang, hang)
			require.Equal(t, 200, f.apply(f.acme, "slow", "model: {name: small}\n").status)
			backEnd := f.key("acme", string(httpapi.TokensWrite), string(httpapi.RunsRead), string(httpapi.RunsWrite))
			in := api.CreateToken{Subject: "ann", Agents: []string{"slow"}, Threads: true}
			var ann api.Token
			f.ok("POST", "/v1/tokens", backEnd, in, &ann)
			other := f.token(in)

			var run api.Run
			f.ok("POST", "/v1/runs", ann.Secret, api.StartRun{Agent: "slow", Input: "Wait."}, &run)
			streams := map[string]*following{
				"ann":   f.follow(ann.Secret, run.ID, ""),
				"other": f.follow(other.Secret, run.ID, ""),
			}
			body := chat("slow", "Wait.")
			plain, streamed := make(chan *reply, 1), make(chan *reply, 1)
			go func() { plain <- f.send("POST", "/v1/chat/completions", ann.Secret, chat("slow", "Wait.")) }()
			body["stream"] = true
			go func() { streamed <- f.send("POST", "/v1/chat/completions", ann.Secret, body) }()
			require.Eventually(t, func() bool {
				var page struct{ Runs []api.Run }
				f.ok("GET", "/v1/runs?status=running", f.acme, nil, &page)
				return len(page.Runs) == 3
			}, 20*time.Second, 10*time.Millisecond)
			require.NoError(t, f.server.router.CheckTokens(t.Context()))
			require.False(t, streams["ann"].ended())

			end(f, &ann, backEnd)
			require.NoError(t, f.server.router.CheckTokens(t.Context()))
			<-streams["ann"].done
			p := <-plain
			require.Equal(t, 401, p.status, "%s", p.body)
			<-streamed
			f.send("GET", "/v1/runs/"+run.ID+"/events", ann.Secret, nil, "Accept", "text/event-stream").problem(t, 401)
			require.False(t, streams["other"].ended())
			f.ok("GET", "/v1/runs/"+run.ID, other.Secret, nil, &run)
			require.Equal(t, "running", run.Status)
			f.ok("POST", "/v1/runs/"+run.ID+"/cancel", f.acme, nil, nil)
			<-streams["other"].done
		})
	}
}
