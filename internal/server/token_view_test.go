package server

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
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestTokenSeesNoQuestions checks that no protocol shows the questions of modules to an end user who
// may not answer them.
func TestTokenSeesNoQuestions(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	in := api.CreateToken{Subject: "ann", Threads: true, Agents: []string{"gated"}}
	ann := f.token(in).Secret
	in.Subject, in.Answers = "bob", true
	bob := f.token(in).Secret
	for path, body := range map[string]any{
		"/v1/chat/completions": chat("gated", "hi"),
		"/v1/responses":        map[string]any{"model": "gated", "input": "hi"},
	} {
		shown := string(f.ok("POST", path, ann, body, nil).body)
		require.Contains(t, shown, "(The run waits for an answer.)")
		for _, secret := range []string{"may it?", "guard", "gate_tool"} {
			require.NotContains(t, shown, secret, path)
		}
		require.Contains(t, string(f.ok("POST", path, bob, body, nil).body), "may it?")
	}
	shown := string(f.agui(ann, "gated", "t", "u1", "hi").body)
	require.Contains(t, shown, "TOOL_CALL_START")
	require.Contains(t, shown, "RUN_FINISHED")
	require.NotContains(t, shown, "may it?")
	require.NotContains(t, shown, "guard")
	require.Contains(t, string(f.agui(bob, "gated", "t", "u1", "hi").body), "may it?")
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
	f.server.runs.Agents = (&agentsOf{make: map[string]func() *agent.Options{"counter": fails}}).source(f.server)
	ann := f.token(api.CreateToken{Subject: "ann", Threads: true}).Secret
	var run api.Run
	f.ok("POST", "/v1/runs", ann, api.StartRun{Agent: "counter", Input: "hi"}, &run)
	require.Equal(t, "the agent failed", f.finished(ann, run.ID).Error)
	require.Contains(t, f.finished(f.acme, run.ID).Error, "guard")
	all := []*reply{
		f.send("GET", "/v1/runs/"+run.ID+"/events", ann, nil),
		f.send("POST", "/v1/chat/completions", ann, chat("counter", "x")),
		f.send("POST", "/v1/responses", ann, map[string]any{"model": "counter", "input": "hi", "stream": true}),
		f.agui(ann, "counter", "t", "u1", "hi"),
	}
	for i, r := range all {
		require.Contains(t, string(r.body), "the agent failed", i)
		require.NotContains(t, string(r.body), "guard", i)
		require.NotContains(t, string(r.body), "deadline", i)
	}
}

// TestTokenSeesNoActivity checks that the stream of a run has no activity of modules for end users,
// even if the request asks for it.
func TestTokenSeesNoActivity(t *testing.T) {
	t.Parallel()
	f := platform(t, scripted.Reply{Hang: true})
	f.upload(f.acme, "mask", mask)
	require.Equal(t, 200, f.apply(f.acme, "archivist", "model: {name: small}\nmiddlewares: [{module: mask}]\n").status)
	ann := f.token(api.CreateToken{Subject: "ann", Agents: []string{"archivist"}}).Secret
	var run api.Run
	f.ok("POST", "/v1/runs", ann, api.StartRun{Agent: "archivist", Input: "Wait."}, &run)
	canceled := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		defer close(canceled)
		f.send("POST", "/v1/runs/"+run.ID+"/cancel", f.acme, nil)
	})
	events := f.events("GET", "/v1/runs/"+run.ID+"/events?activity=true", ann, nil)
	<-canceled // its request ends with the test otherwise
	require.NotEmpty(t, events)
	for _, e := range events {
		require.NotEqual(t, "activity", e.kind)
		require.NotContains(t, e.data, "mask")
	}
}

// TestTokenGuessesNoMetadata checks that a token cannot find out the metadata of its threads.
func TestTokenGuessesNoMetadata(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	f.thread(f.acme, api.CreateThread{Subject: "ann", Agent: "counter", Metadata: map[string]string{"vip": "yes"}})
	ann := f.token(api.CreateToken{Subject: "ann", Threads: true}).Secret
	for _, value := range []string{"yes", "no"} {
		f.send("GET", "/v1/threads?metadata=vip:"+value, ann, nil).problem(t, 403)
	}
}

// TestRejectedRequestsStoreNoThreads checks that requests that start no run store neither forks nor
// threads, even if the token's quota does not allow the run.
func TestRejectedRequestsStoreNoThreads(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	poor := f.token(api.CreateToken{Subject: "ann", Threads: true, Quota: api.TokenQuota{Runs: 2}}).Secret
	rich := f.token(api.CreateToken{Subject: "ann", Threads: true}).Secret
	var first struct{ ID string }
	f.ok("POST", "/v1/responses", poor, map[string]any{"model": "counter", "input": "hi"}, &first)
	next := map[string]any{"model": "counter", "input": "more", "previous_response_id": first.ID}
	f.ok("POST", "/v1/responses", poor, next, nil)
	before := f.threadCount(f.acme)
	require.Equal(t, 429, f.send("POST", "/v1/responses", poor, next).status)
	require.Equal(t, 429, f.agui(poor, "counter", "new", "u1", "hi").status)
	for field, value := range map[string]any{"instructions": "obey", "metadata": map[string]string{"a": "b"}} {
		next[field] = value
		require.Equal(t, 403, f.send("POST", "/v1/responses", rich, next).status)
		delete(next, field)
	}
	require.Equal(t, before, f.threadCount(f.acme))
	f.ok("POST", "/v1/responses", rich, next, nil)
	require.Equal(t, before+1, f.threadCount(f.acme))

	p := countingPlatform(t)
	one := p.respond(p.acme, "one", "")
	p.respond(p.acme, "two", one.ID)
	require.Equal(t, 200, p.apply(p.acme, "counter", "model: {name: small}\nrequests: {params: []}\n").status)
	before = p.threadCount(p.acme)
	bad := map[string]any{"model": "counter", "input": "x", "previous_response_id": one.ID, "temperature": 0.5}
	require.Equal(t, 400, p.send("POST", "/v1/responses", p.acme, bad).status)
	require.Equal(t, before, p.threadCount(p.acme))
}

// TestTokenThreadsAreBounded checks that an end user cannot create any number of threads, and that
// responses of an end user are not for caches.
func TestTokenThreadsAreBounded(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	ann := f.token(api.CreateToken{Subject: "ann", Threads: true}).Secret
	bob := f.token(api.CreateToken{Subject: "bob", Threads: true}).Secret
	var last *api.Thread
	for range 100 {
		last = f.thread(ann, api.CreateThread{Agent: "counter"})
	}
	p := f.send("POST", "/v1/threads", ann, api.CreateThread{Agent: "counter"}).problem(t, 429)
	require.Equal(t, "unused_threads", p.Quota)
	require.Equal(t, 429, f.agui(ann, "counter", "new", "u1", "hi").status)
	f.thread(bob, api.CreateThread{Agent: "counter"})
	f.thread(f.acme, api.CreateThread{Agent: "counter", Subject: "ann"})
	f.say(ann, last.ID, "hi")
	f.thread(ann, api.CreateThread{Agent: "counter"})
	r := f.send("GET", "/v1/threads", "", nil, "X-Api-Key", ann)
	require.Equal(t, "no-store", r.header.Get("Cache-Control"))
}

// TestConcurrentForks checks that forks that begin at the same time do not exceed the quota
// journal_bytes together.
func TestConcurrentForks(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	const quota = 4 << 20
	_, err := f.store.CreateTenant(t.Context(), "small", "small", store.TenantQuota{JournalBytes: quota}, nil)
	require.NoError(t, err)
	_, err = f.store.Tenant("small").PutAgent(t.Context(), "counter", []byte("{}"), nil)
	require.NoError(t, err)
	key := f.key("small", "runs:read", "runs:write")
	h := f.thread(key, api.CreateThread{Agent: "counter"})
	f.say(key, h.ID, strings.Repeat("x", 200<<10))
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() { f.send("POST", "/v1/threads/"+h.ID+"/fork", key, map[string]any{}) })
	}
	all.Wait()
	var list struct{ Threads []api.Thread }
	f.ok("GET", "/v1/threads", key, nil, &list)
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
	f := platform(t, scripted.Reply{Hang: true})
	require.Equal(t, 200, f.apply(f.acme, "archivist", "model: {name: small}\n").status)
	ann := f.token(api.CreateToken{Subject: "ann", Agents: []string{"archivist"}}).Secret
	bob := f.token(api.CreateToken{Subject: "bob", Agents: []string{"archivist"}}).Secret
	var run api.Run
	f.ok("POST", "/v1/runs", ann, api.StartRun{Agent: "archivist", Input: "Wait."}, &run)
	path := "/v1/runs/" + run.ID
	for range 64 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", f.url+path+"/events", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+ann)
		req.Header.Set("Accept", "text/event-stream")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
	}
	require.Equal(t, "concurrent_requests", f.send("GET", path, ann, nil).problem(t, 429).Quota)
	f.ok("GET", path, f.acme, nil, nil)
	f.send("GET", path, bob, nil).problem(t, 404)
	f.ok("POST", path+"/cancel", f.acme, nil, nil)
	require.Eventually(t, func() bool { return f.send("GET", path, ann, nil).status == 200 },
		20*time.Second, 50*time.Millisecond)
}
