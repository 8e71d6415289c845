package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestThread checks that runs continue a thread, and which messages a run without an answer leaves in
// the thread.
func TestThread(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"counter": servertest.CountingAgent})
	_, err := f.Store.Tenant("acme").PutAgent(t.Context(), "counter", []byte("{}"), nil)
	require.NoError(t, err)
	h := f.CreateThread(f.Acme, api.CreateThread{Agent: "counter", Metadata: map[string]string{"team": "a"}})
	require.Regexp(t, "^thr_", h.ID)
	require.Equal(t, "reject", h.Concurrency)

	require.Equal(t, "1: first", f.Say(f.Acme, h.ID, "first").Output)
	require.Equal(t, "3: second", f.Say(f.Acme, h.ID, "second").Output)
	require.Equal(t, "error", f.Say(f.Acme, h.ID, "fail").FinishReason)
	require.Equal(t, "5: third", f.Say(f.Acme, h.ID, "third").Output, "a failed run leaves the thread as it was")
	require.Equal(t, []string{"user: first", "assistant: 1: first", "user: second", "assistant: 3: second",
		"user: third", "assistant: 5: third"}, f.Said(f.Acme, h.ID))

	var now api.Thread
	f.OK("GET", "/v1/threads/"+h.ID, f.Acme, nil, &now)
	require.Equal(t, "first", now.Title)
	require.EqualValues(t, 6, now.Messages)
	f.Send("GET", "/v1/threads/"+h.ID, f.Beta, nil).Problem(t, 404)
	f.Send("POST", "/v1/runs", f.Beta, api.StartRun{Agent: "counter", Thread: h.ID, Input: "x"}).Problem(t, 404)

	title := "Renamed"
	now = api.Thread{}
	f.OK(
		"PATCH",
		"/v1/threads/"+h.ID,
		f.Acme,
		api.ThreadUpdate{Title: &title, Metadata: map[string]string{"n": "1"}},
		&now,
	)
	require.Equal(t, "Renamed", now.Title)
	require.Equal(t, map[string]string{"n": "1"}, now.Metadata)
	var list struct{ Threads []api.Thread }
	f.OK("GET", "/v1/threads?metadata=n:1", f.Acme, nil, &list)
	require.Len(t, list.Threads, 1)
	f.OK("GET", "/v1/threads?metadata=team:a", f.Acme, nil, &list)
	require.Empty(t, list.Threads)

	f.OK("DELETE", "/v1/threads/"+h.ID, f.Acme, nil, nil)
	f.Send("GET", "/v1/threads/"+h.ID, f.Acme, nil).Problem(t, 404)
	var runs struct{ Runs []api.Run }
	f.OK("GET", "/v1/runs", f.Acme, nil, &runs)
	require.Empty(t, runs.Runs)
}

// TestThreadFields checks that hostile titles and metadata are rejected.
func TestThreadFields(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	h := f.CreateThread(f.Acme, api.CreateThread{})
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint(i)] = ""
	}
	for name, body := range map[string]any{
		"control character": api.CreateThread{Title: "a\x1b[31m"},
		"zero byte":         api.CreateThread{Title: "a\x00"},
		"line separator":    api.CreateThread{Title: "a\u2028b"},
		"long title":        api.CreateThread{Title: strings.Repeat("ä", 201)},
		"unknown agent":     api.CreateThread{Agent: "none"},
		"many entries":      api.CreateThread{Metadata: many},
		"long name":         api.CreateThread{Metadata: map[string]string{strings.Repeat("n", 65): ""}},
		"empty name":        api.CreateThread{Metadata: map[string]string{"": ""}},
		"colon in name":     api.CreateThread{Metadata: map[string]string{"a:b": ""}},
		"long value":        api.CreateThread{Metadata: map[string]string{"a": strings.Repeat("v", 513)}},
		"zero in value":     api.CreateThread{Metadata: map[string]string{"a": "\x00"}},
		"unknown choice":    api.CreateThread{Concurrency: "often"},
	} {
		r := f.Send("POST", "/v1/threads", f.Acme, body)
		require.Contains(t, []int{404, 422}, r.Status, "%s: %s", name, r.Body)
		r = f.Send("PATCH", "/v1/threads/"+h.ID, f.Acme, body)
		require.Contains(t, []int{404, 422}, r.Status, "%s: %s", name, r.Body)
	}
	f.OK("PATCH", "/v1/threads/"+h.ID, f.Acme, map[string]string{"title": strings.Repeat("ä", 200)}, nil)
	f.Send("POST", "/v1/threads", f.Acme, []byte(`{"title":"`+"\xff"+`"}`)).Problem(t, 400)
}

// TestThreadErasure checks that a module that removes text from the state of a run removes it from
// the thread: from messages of this run and of earlier ones, also if the run fails.
func TestThreadErasure(t *testing.T) {
	t.Parallel()
	redacting := func() *agent.Options {
		o := servertest.CountingAgent()
		c, err := chain.New(hook.Entry{Name: "redact", Ring: hook.Tenant, Middleware: &inproc.Middleware{
			BeforeModelRewriteState: func(
				_ context.Context, c *hook.Call, _ *abi.BeforeModelRewriteStateInput,
			) (*abi.BeforeModelRewriteStateAnswer, error) {
				var patch abi.ListPatch
				for i := range c.List(0).Len() {
					m := c.List(0).At(i)
					if text := m.Content.String(); strings.Contains(text, "secret") {
						m.Content = abi.Text(strings.ReplaceAll(text, "secret", "[x]"))
						patch.Splice = append(patch.Splice, abi.Splice{At: i, Remove: 1, Insert: []abi.Message{m}})
					}
				}
				return &abi.BeforeModelRewriteStateAnswer{Messages: patch}, nil
			},
		}})
		require.NoError(t, err)
		o.Chain = c
		return o
	}
	f, of := servertest.NewWithAgents(t, map[string]func() *agent.Options{"a": servertest.CountingAgent})
	h := f.CreateThread(f.Acme, api.CreateThread{})
	run := func(text string) *api.Run {
		var run api.Run
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "a", Thread: h.ID, Input: text}, &run)
		return f.Finished(f.Acme, run.ID)
	}
	run("one secret")
	of.Set("a", redacting)
	failed := run("fail with a secret")
	require.Equal(t, "error", failed.FinishReason)
	require.Equal(t, []string{"user: one [x]", "assistant: 1: one [x]"}, f.Said(f.Acme, h.ID))
	run("two secrets")
	require.Equal(t, []string{"user: one [x]", "assistant: 1: one [x]", "user: two [x]s", "assistant: 3: two [x]s"},
		f.Said(f.Acme, h.ID))
	var now api.Thread
	f.OK("GET", "/v1/threads/"+h.ID, f.Acme, nil, &now)
	require.Equal(t, "one [x]", now.Title)
	require.NotContains(t, string(f.OK("GET", "/v1/runs/"+failed.ID+"/history", f.Acme, nil, nil).Body), "secret")
}

// TestThreadConcurrency checks what happens to a run while another run of its thread is unfinished,
// with two servers on one database.
func TestThreadConcurrency(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	waiting := func() *agent.Options { return &agent.Options{Model: scripted.Func(servertest.GatedReplies(gate))} }
	f, of := servertest.NewWithAgents(t, map[string]func() *agent.Options{"a": waiting})
	second, err := server.New(&server.Options{Store: f.Store, Host: f.Host})
	require.NoError(t, err)
	server.ServicesOf(second).Runs.Agents = of.Source(second)
	for _, s := range []*server.Server{f.Server, second} {
		go server.ServicesOf(s).Runs.WatchQueues(t.Context())
		go server.ServicesOf(s).Runs.WatchCancels(t.Context())
	}
	h := f.CreateThread(f.Acme, api.CreateThread{Concurrency: "queue"})
	start := func(text, choice string) (run api.Run) {
		f.OK("POST", "/v1/runs", f.Acme,
			api.StartRun{Agent: "a", Thread: h.ID, Input: text, Concurrency: choice}, &run)
		return run
	}
	first := start("wait", "")
	require.Equal(t, "running", first.Status)
	f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "a", Thread: h.ID, Input: "x", Concurrency: "reject"}).
		Problem(t, 409)
	var queued []api.Run
	for _, text := range []string{"one", "two", "three"} {
		run := start(text, "")
		require.Equal(t, "queued", run.Status)
		queued = append(queued, run)
	}
	f.OK("POST", "/v1/runs/"+queued[1].ID+"/cancel", f.Acme, nil, nil)
	require.Equal(t, "canceled", f.Finished(f.Acme, queued[1].ID).FinishReason)
	f.OK("GET", "/v1/runs/"+queued[1].ID+"/history", f.Acme, nil, nil)
	close(gate)
	events := f.Events("GET", "/v1/runs/"+queued[2].ID+"/events", f.Acme, nil)
	require.Equal(t, "run_finished", events[len(events)-1].Kind, "a follower waits for the run's turn")
	require.Equal(t, []string{"user: wait", "assistant: 1: wait", "user: one", "assistant: 3: one", "user: three",
		"assistant: 5: three"}, f.Said(f.Acme, h.ID))
	require.Equal(t, queued[0].Created, f.Finished(f.Acme, queued[0].ID).Created, "its place in lists stays")

	hangs := start("hang", "")
	after := start("four", "queue")
	last := start("five", "cancel")
	require.Equal(t, "canceled", f.Finished(f.Acme, hangs.ID).FinishReason)
	require.Equal(t, "canceled", f.Finished(f.Acme, after.ID).FinishReason)
	require.Equal(t, "8: five", f.Finished(f.Acme, last.ID).Output, "the input of the canceled run stays")

	start("hang", "")
	for range store.DefaultQueuedRuns {
		start("more", "queue")
	}
	r := f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "a", Thread: h.ID, Input: "x", Concurrency: "queue"})
	require.Equal(t, "queued_runs", r.Problem(t, 429).Quota)
}
