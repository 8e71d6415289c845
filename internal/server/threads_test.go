package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/store"
)

// counting answers with the number of messages of the request and the text of the last one.
func counting() *agent.Options {
	return &agent.Options{Model: scripted.Func(func(_ int, req *model.Request) scripted.Reply {
		last := req.Messages[len(req.Messages)-1].Content.String()
		if strings.Contains(last, "fail") {
			return scripted.Reply{Err: &model.Error{Status: 400, Message: "bad"}}
		}
		return scripted.Text(fmt.Sprintf("%d: %s", len(req.Messages), last))
	})}
}

// thread creates a thread.
func (f *fixture) thread(key string, in api.CreateThread) *api.Thread {
	f.t.Helper()
	var h api.Thread
	require.Equal(f.t, 201, f.ok("POST", "/v1/threads", key, in, &h).status)
	return &h
}

// say starts a run with a user's message in a thread, and returns the run when it has ended.
func (f *fixture) say(key, thread, text string) *api.Run {
	f.t.Helper()
	var run api.Run
	f.ok("POST", "/v1/runs", key, api.StartRun{Thread: thread, Input: text}, &run)
	require.Equal(f.t, thread, run.Thread)
	return f.finished(key, run.ID)
}

// said returns the roles and texts of a thread's messages.
func (f *fixture) said(key, thread string) (out []string) {
	f.t.Helper()
	var page struct {
		Messages []api.ThreadMessage
		Next     string `json:"next_cursor"`
	}
	for query := ""; ; query = "?limit=2&cursor=" + page.Next {
		page.Next = ""
		f.ok("GET", "/v1/threads/"+thread+"/messages"+query, key, nil, &page)
		for _, m := range page.Messages {
			var text abi.Message
			require.NoError(f.t, json.Unmarshal(m.Message, &text))
			out = append(out, text.Role+": "+text.Content.String())
		}
		if page.Next == "" {
			return out
		}
	}
}

// TestThread checks that runs continue a thread, and which messages a run without an answer leaves in
// the thread.
func TestThread(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"counter": counting})
	_, err := f.store.Tenant("acme").PutAgent(t.Context(), "counter", []byte("{}"), nil)
	require.NoError(t, err)
	h := f.thread(f.acme, api.CreateThread{Agent: "counter", Metadata: map[string]string{"team": "a"}})
	require.Regexp(t, "^thr_", h.ID)
	require.Equal(t, "reject", h.Concurrency)

	require.Equal(t, "1: first", f.say(f.acme, h.ID, "first").Output)
	require.Equal(t, "3: second", f.say(f.acme, h.ID, "second").Output)
	require.Equal(t, "error", f.say(f.acme, h.ID, "fail").FinishReason)
	require.Equal(t, "5: third", f.say(f.acme, h.ID, "third").Output, "a failed run leaves the thread as it was")
	require.Equal(t, []string{"user: first", "assistant: 1: first", "user: second", "assistant: 3: second",
		"user: third", "assistant: 5: third"}, f.said(f.acme, h.ID))

	var now api.Thread
	f.ok("GET", "/v1/threads/"+h.ID, f.acme, nil, &now)
	require.Equal(t, "first", now.Title)
	require.EqualValues(t, 6, now.Messages)
	f.send("GET", "/v1/threads/"+h.ID, f.beta, nil).problem(t, 404)
	f.send("POST", "/v1/runs", f.beta, api.StartRun{Agent: "counter", Thread: h.ID, Input: "x"}).problem(t, 404)

	title := "Renamed"
	now = api.Thread{}
	f.ok(
		"PATCH",
		"/v1/threads/"+h.ID,
		f.acme,
		api.ThreadUpdate{Title: &title, Metadata: map[string]string{"n": "1"}},
		&now,
	)
	require.Equal(t, "Renamed", now.Title)
	require.Equal(t, map[string]string{"n": "1"}, now.Metadata)
	var list struct{ Threads []api.Thread }
	f.ok("GET", "/v1/threads?metadata=n:1", f.acme, nil, &list)
	require.Len(t, list.Threads, 1)
	f.ok("GET", "/v1/threads?metadata=team:a", f.acme, nil, &list)
	require.Empty(t, list.Threads)

	f.ok("DELETE", "/v1/threads/"+h.ID, f.acme, nil, nil)
	f.send("GET", "/v1/threads/"+h.ID, f.acme, nil).problem(t, 404)
	var runs struct{ Runs []api.Run }
	f.ok("GET", "/v1/runs", f.acme, nil, &runs)
	require.Empty(t, runs.Runs)
}

// TestThreadFields checks that hostile titles and metadata are rejected.
func TestThreadFields(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := f.thread(f.acme, api.CreateThread{})
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
		r := f.send("POST", "/v1/threads", f.acme, body)
		require.Contains(t, []int{404, 422}, r.status, "%s: %s", name, r.body)
		r = f.send("PATCH", "/v1/threads/"+h.ID, f.acme, body)
		require.Contains(t, []int{404, 422}, r.status, "%s: %s", name, r.body)
	}
	f.ok("PATCH", "/v1/threads/"+h.ID, f.acme, map[string]string{"title": strings.Repeat("ä", 200)}, nil)
	f.send("POST", "/v1/threads", f.acme, []byte(`{"title":"`+"\xff"+`"}`)).problem(t, 400)
}

// TestThreadErasure checks that a module that removes text from the state of a run removes it from
// the thread: from messages of this run and of earlier ones, also if the run fails.
func TestThreadErasure(t *testing.T) {
	t.Parallel()
	redacting := func() *agent.Options {
		o := counting()
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
	f, of := runFixture(t, map[string]func() *agent.Options{"a": counting})
	h := f.thread(f.acme, api.CreateThread{})
	run := func(text string) *api.Run {
		var run api.Run
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "a", Thread: h.ID, Input: text}, &run)
		return f.finished(f.acme, run.ID)
	}
	run("one secret")
	of.mu.Lock()
	of.make["a"] = redacting
	of.mu.Unlock()
	failed := run("fail with a secret")
	require.Equal(t, "error", failed.FinishReason)
	require.Equal(t, []string{"user: one [x]", "assistant: 1: one [x]"}, f.said(f.acme, h.ID))
	run("two secrets")
	require.Equal(t, []string{"user: one [x]", "assistant: 1: one [x]", "user: two [x]s", "assistant: 3: two [x]s"},
		f.said(f.acme, h.ID))
	var now api.Thread
	f.ok("GET", "/v1/threads/"+h.ID, f.acme, nil, &now)
	require.Equal(t, "one [x]", now.Title)
	require.NotContains(t, string(f.ok("GET", "/v1/runs/"+failed.ID+"/history", f.acme, nil, nil).body), "secret")
}

// gated returns a model that answers as [counting] does. If the last message is "wait", it first
// waits for gate. If the message begins with "hang", it never answers.
func gated(gate <-chan struct{}) func(int, *model.Request) scripted.Reply {
	return func(_ int, req *model.Request) scripted.Reply {
		last := req.Messages[len(req.Messages)-1].Content.String()
		switch {
		case last == "wait":
			<-gate
		case strings.HasPrefix(last, "hang"):
			return scripted.Reply{Hang: true}
		}
		return scripted.Text(fmt.Sprintf("%d: %s", len(req.Messages), last))
	}
}

// TestThreadConcurrency checks what happens to a run while another run of its thread is unfinished,
// with two servers on one database.
func TestThreadConcurrency(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	waiting := func() *agent.Options { return &agent.Options{Model: scripted.Func(gated(gate))} }
	f, of := runFixture(t, map[string]func() *agent.Options{"a": waiting})
	second, err := New(&Options{Store: f.store, Host: f.server.options.Host})
	require.NoError(t, err)
	second.runs.Agents = of.source(second)
	for _, s := range []*Server{f.server, second} {
		go s.runs.WatchQueues(t.Context())
		go s.runs.WatchCancels(t.Context())
	}
	h := f.thread(f.acme, api.CreateThread{Concurrency: "queue"})
	start := func(text, choice string) (run api.Run) {
		f.ok("POST", "/v1/runs", f.acme,
			api.StartRun{Agent: "a", Thread: h.ID, Input: text, Concurrency: choice}, &run)
		return run
	}
	first := start("wait", "")
	require.Equal(t, "running", first.Status)
	f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: "a", Thread: h.ID, Input: "x", Concurrency: "reject"}).
		problem(t, 409)
	var queued []api.Run
	for _, text := range []string{"one", "two", "three"} {
		run := start(text, "")
		require.Equal(t, "queued", run.Status)
		queued = append(queued, run)
	}
	f.ok("POST", "/v1/runs/"+queued[1].ID+"/cancel", f.acme, nil, nil)
	require.Equal(t, "canceled", f.finished(f.acme, queued[1].ID).FinishReason)
	f.ok("GET", "/v1/runs/"+queued[1].ID+"/history", f.acme, nil, nil)
	close(gate)
	events := f.events("GET", "/v1/runs/"+queued[2].ID+"/events", f.acme, nil)
	require.Equal(t, "run_finished", events[len(events)-1].kind, "a follower waits for the run's turn")
	require.Equal(t, []string{"user: wait", "assistant: 1: wait", "user: one", "assistant: 3: one", "user: three",
		"assistant: 5: three"}, f.said(f.acme, h.ID))
	require.Equal(t, queued[0].Created, f.finished(f.acme, queued[0].ID).Created, "its place in lists stays")

	hangs := start("hang", "")
	after := start("four", "queue")
	last := start("five", "cancel")
	require.Equal(t, "canceled", f.finished(f.acme, hangs.ID).FinishReason)
	require.Equal(t, "canceled", f.finished(f.acme, after.ID).FinishReason)
	require.Equal(t, "8: five", f.finished(f.acme, last.ID).Output, "the input of the canceled run stays")

	start("hang", "")
	for range store.DefaultQueuedRuns {
		start("more", "queue")
	}
	r := f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: "a", Thread: h.ID, Input: "x", Concurrency: "queue"})
	require.Equal(t, "queued_runs", r.problem(t, 429).Quota)
}
