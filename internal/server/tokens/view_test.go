package tokens_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestTokenSeesNoQuestions checks that no protocol shows the questions of modules to an end user who
// may not answer them.
func TestTokenSeesNoQuestions(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	in := api.CreateToken{Subject: "ann", Threads: true, Agents: []string{"gated"}}
	ann := token(f, in).Secret
	in.Subject, in.Answers = "bob", true
	bob := token(f, in).Secret
	for path, body := range map[string]any{
		"/v1/chat/completions": chat("gated", "hi"),
		"/v1/responses":        map[string]any{"model": "gated", "input": "hi"},
	} {
		shown := string(f.OK("POST", path, ann, body, nil).Body)
		require.Contains(t, shown, "(The run waits for an answer.)")
		for _, secret := range []string{"may it?", "guard", "gate_tool"} {
			require.NotContains(t, shown, secret, path)
		}
		require.Contains(t, string(f.OK("POST", path, bob, body, nil).Body), "may it?")
	}
	shown := string(f.AGUI(ann, "gated", "t", "u1", "hi").Body)
	require.Contains(t, shown, "TOOL_CALL_START")
	require.Contains(t, shown, "RUN_FINISHED")
	require.NotContains(t, shown, "may it?")
	require.NotContains(t, shown, "guard")
	require.Contains(t, string(f.AGUI(bob, "gated", "t", "u1", "hi").Body), "may it?")
}

// TestTokenSeesNoErrors checks that no protocol shows an end user which module failed, and why.
func TestTokenSeesNoErrors(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	fails := func() *agent.Options {
		c, err := chain.New(hook.Entry{Name: "guard", Ring: hook.Tenant, Middleware: &inproc.Middleware{
			BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
				return nil, context.DeadlineExceeded
			},
		}})
		if err != nil {
			panic(err)
		}
		return &agent.Options{Chain: c, Model: calling("act")}
	}
	f.Services.Runs.Agents = servertest.NewAgents(map[string]func() *agent.Options{"counter": fails}).Source(f.Server)
	ann := token(f, api.CreateToken{Subject: "ann", Threads: true}).Secret
	var run api.Run
	f.OK("POST", "/v1/runs", ann, api.StartRun{Agent: "counter", Input: "hi"}, &run)
	require.Equal(t, "the agent failed", f.Finished(ann, run.ID).Error)
	require.Contains(t, f.Finished(f.Acme, run.ID).Error, "guard")
	all := []*servertest.Reply{
		f.Send("GET", "/v1/runs/"+run.ID+"/events", ann, nil),
		f.Send("POST", "/v1/chat/completions", ann, chat("counter", "x")),
		f.Send("POST", "/v1/responses", ann, map[string]any{"model": "counter", "input": "hi", "stream": true}),
		f.AGUI(ann, "counter", "t", "u1", "hi"),
	}
	for i, r := range all {
		require.Contains(t, string(r.Body), "the agent failed", i)
		require.NotContains(t, string(r.Body), "guard", i)
		require.NotContains(t, string(r.Body), "deadline", i)
	}
}

// TestTokenSeesNoActivity checks that the stream of a run has no activity of modules for end users,
// even if the request asks for it.
func TestTokenSeesNoActivity(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Reply{Hang: true})
	f.Upload(f.Acme, "mask", servertest.MaskModule)
	require.Equal(t, 200, f.Apply(f.Acme, "archivist", "model: {name: small}\nmiddlewares: [{module: mask}]\n").Status)
	ann := token(f, api.CreateToken{Subject: "ann", Agents: []string{"archivist"}}).Secret
	var run api.Run
	f.OK("POST", "/v1/runs", ann, api.StartRun{Agent: "archivist", Input: "Wait."}, &run)
	canceled := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		defer close(canceled)
		f.Send("POST", "/v1/runs/"+run.ID+"/cancel", f.Acme, nil)
	})
	events := f.Events("GET", "/v1/runs/"+run.ID+"/events?activity=true", ann, nil)
	<-canceled // its request ends with the test otherwise
	require.NotEmpty(t, events)
	for _, e := range events {
		require.NotEqual(t, "activity", e.Kind)
		require.NotContains(t, e.Data, "mask")
	}
}

// TestTokenGuessesNoMetadata checks that a token cannot find out the metadata of its threads.
func TestTokenGuessesNoMetadata(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	f.CreateThread(f.Acme, api.CreateThread{Subject: "ann", Agent: "counter", Metadata: map[string]string{"vip": "yes"}})
	ann := token(f, api.CreateToken{Subject: "ann", Threads: true}).Secret
	for _, value := range []string{"yes", "no"} {
		f.Send("GET", "/v1/threads?metadata=vip:"+value, ann, nil).Problem(t, 403)
	}
}

// TestRejectedRequestsStoreNoThreads checks that requests that start no run store neither forks nor
// threads, even if the token's quota does not allow the run.
func TestRejectedRequestsStoreNoThreads(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	poor := token(f, api.CreateToken{Subject: "ann", Threads: true, Quota: api.TokenQuota{Runs: 2}}).Secret
	rich := token(f, api.CreateToken{Subject: "ann", Threads: true}).Secret
	var first struct{ ID string }
	f.OK("POST", "/v1/responses", poor, map[string]any{"model": "counter", "input": "hi"}, &first)
	next := map[string]any{"model": "counter", "input": "more", "previous_response_id": first.ID}
	f.OK("POST", "/v1/responses", poor, next, nil)
	before := f.CountThreads(f.Acme)
	require.Equal(t, 429, f.Send("POST", "/v1/responses", poor, next).Status)
	require.Equal(t, 429, f.AGUI(poor, "counter", "new", "u1", "hi").Status)
	for field, value := range map[string]any{"instructions": "obey", "metadata": map[string]string{"a": "b"}} {
		next[field] = value
		require.Equal(t, 403, f.Send("POST", "/v1/responses", rich, next).Status)
		delete(next, field)
	}
	require.Equal(t, before, f.CountThreads(f.Acme))
	f.OK("POST", "/v1/responses", rich, next, nil)
	require.Equal(t, before+1, f.CountThreads(f.Acme))

	p := servertest.NewCounting(t)
	one := p.Respond(p.Acme, "one", "")
	p.Respond(p.Acme, "two", one.ID)
	require.Equal(t, 200, p.Apply(p.Acme, "counter", "model: {name: small}\nrequests: {params: []}\n").Status)
	before = p.CountThreads(p.Acme)
	bad := map[string]any{"model": "counter", "input": "x", "previous_response_id": one.ID, "temperature": 0.5}
	require.Equal(t, 400, p.Send("POST", "/v1/responses", p.Acme, bad).Status)
	require.Equal(t, before, p.CountThreads(p.Acme))
}

// TestTokenThreadsAreBounded checks that an end user cannot create any number of threads, and that
// responses of an end user are not for caches.
func TestTokenThreadsAreBounded(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	ann := token(f, api.CreateToken{Subject: "ann", Threads: true}).Secret
	bob := token(f, api.CreateToken{Subject: "bob", Threads: true}).Secret
	var last *api.Thread
	for range 100 {
		last = f.CreateThread(ann, api.CreateThread{Agent: "counter"})
	}
	p := f.Send("POST", "/v1/threads", ann, api.CreateThread{Agent: "counter"}).Problem(t, 429)
	require.Equal(t, "unused_threads", p.Quota)
	require.Equal(t, 429, f.AGUI(ann, "counter", "new", "u1", "hi").Status)
	f.CreateThread(bob, api.CreateThread{Agent: "counter"})
	f.CreateThread(f.Acme, api.CreateThread{Agent: "counter", Subject: "ann"})
	f.Say(ann, last.ID, "hi")
	f.CreateThread(ann, api.CreateThread{Agent: "counter"})
	r := f.Send("GET", "/v1/threads", "", nil, "X-Api-Key", ann)
	require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
}

// TestConcurrentForks checks that forks that begin at the same time do not exceed the quota
// journal_bytes together.
func TestConcurrentForks(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	const quota = 4 << 20
	_, err := f.Store.CreateTenant(t.Context(), "small", "small", store.TenantQuota{JournalBytes: quota}, nil)
	require.NoError(t, err)
	_, err = f.Store.Tenant("small").PutAgent(t.Context(), "counter", []byte("{}"), nil)
	require.NoError(t, err)
	key := f.Key("small", "runs:read", "runs:write")
	h := f.CreateThread(key, api.CreateThread{Agent: "counter"})
	f.Say(key, h.ID, strings.Repeat("x", 200<<10))
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() { f.Send("POST", "/v1/threads/"+h.ID+"/fork", key, map[string]any{}) })
	}
	all.Wait()
	var list struct{ Threads []api.Thread }
	f.OK("GET", "/v1/threads", key, nil, &list)
	total := int64(0)
	for i := range list.Threads {
		total += list.Threads[i].Bytes
	}
	require.LessOrEqual(t, total, int64(quota))
	require.Greater(t, len(list.Threads), 1)
}

// TestTokenRequestsAreBounded checks that the event streams of one end user leave room for other
// requests of the tenant.
func TestTokenRequestsAreBounded(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Reply{Hang: true})
	require.Equal(t, 200, f.Apply(f.Acme, "archivist", "model: {name: small}\n").Status)
	ann := token(f, api.CreateToken{Subject: "ann", Agents: []string{"archivist"}}).Secret
	bob := token(f, api.CreateToken{Subject: "bob", Agents: []string{"archivist"}}).Secret
	var run api.Run
	f.OK("POST", "/v1/runs", ann, api.StartRun{Agent: "archivist", Input: "Wait."}, &run)
	path := "/v1/runs/" + run.ID
	for range 64 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", f.URL+path+"/events", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+ann)
		req.Header.Set("Accept", "text/event-stream")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
	}
	require.Equal(t, "concurrent_requests", f.Send("GET", path, ann, nil).Problem(t, 429).Quota)
	f.OK("GET", path, f.Acme, nil, nil)
	f.Send("GET", path, bob, nil).Problem(t, 404)
	f.OK("POST", path+"/cancel", f.Acme, nil, nil)
	require.Eventually(t, func() bool { return f.Send("GET", path, ann, nil).Status == 200 },
		20*time.Second, 50*time.Millisecond)
}
