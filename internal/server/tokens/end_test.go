package tokens_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestTokenEndsRequests checks that the requests in flight of a token end soon after it was deleted, or its key was
// revoked. Runs that a request only started or reads go on, and so do the requests of others.
func TestTokenEndsRequests(t *testing.T) {
	t.Parallel()
	hang := scripted.Reply{Hang: true}
	for name, end := range map[string]func(f *servertest.Fixture, k *api.Token, key string){
		"deleted": func(f *servertest.Fixture, k *api.Token, _ string) {
			f.OK("DELETE", "/v1/tokens/"+k.ID, f.Acme, nil, nil)
		},
		"key": func(f *servertest.Fixture, _ *api.Token, key string) {
			f.OK("DELETE", "/v1/keys/"+servertest.KeyID(key), f.Acme, nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := servertest.NewWithReplies(t, hang, hang, hang, hang)
			require.Equal(t, 200, f.Apply(f.Acme, "slow", "model: {name: small}\n").Status)
			backEnd := f.Key("acme", string(httpapi.TokensWrite), string(httpapi.RunsRead), string(httpapi.RunsWrite))
			in := api.CreateToken{Subject: "ann", Agents: []string{"slow"}, Threads: true}
			var ann api.Token
			f.OK("POST", "/v1/tokens", backEnd, in, &ann)
			other := token(f, in)

			var run api.Run
			f.OK("POST", "/v1/runs", ann.Secret, api.StartRun{Agent: "slow", Input: "Wait."}, &run)
			streams := map[string]*servertest.Stream{
				"ann":   f.Follow(ann.Secret, run.ID, ""),
				"other": f.Follow(other.Secret, run.ID, ""),
			}
			body := chat("slow", "Wait.")
			plain, streamed := make(chan *servertest.Reply, 1), make(chan *servertest.Reply, 1)
			go func() { plain <- f.Send("POST", "/v1/chat/completions", ann.Secret, chat("slow", "Wait.")) }()
			body["stream"] = true
			go func() { streamed <- f.Send("POST", "/v1/chat/completions", ann.Secret, body) }()
			require.Eventually(t, func() bool {
				var page struct{ Runs []api.Run }
				f.OK("GET", "/v1/runs?status=running", f.Acme, nil, &page)
				return len(page.Runs) == 3
			}, 20*time.Second, 10*time.Millisecond)
			require.NoError(t, f.Services.Router.CheckTokens(t.Context()))
			require.False(t, streams["ann"].Ended())

			end(f, &ann, backEnd)
			require.NoError(t, f.Services.Router.CheckTokens(t.Context()))
			<-streams["ann"].Done
			p := <-plain
			require.Equal(t, 401, p.Status, "%s", p.Body)
			<-streamed
			f.Send("GET", "/v1/runs/"+run.ID+"/events", ann.Secret, nil, "Accept", "text/event-stream").Problem(t, 401)
			require.False(t, streams["other"].Ended())
			f.OK("GET", "/v1/runs/"+run.ID, other.Secret, nil, &run)
			require.Equal(t, "running", run.Status)
			f.OK("POST", "/v1/runs/"+run.ID+"/cancel", f.Acme, nil, nil)
			<-streams["other"].Done
		})
	}
}
