package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestPreviousResponse checks that requests continue earlier responses: the last response of a thread
// in this thread, and all others in forks. It also sends such requests concurrently.
func TestPreviousResponse(t *testing.T) {
	t.Parallel()
	f := servertest.NewCounting(t)
	first := f.Respond(f.Acme, "one", "")
	require.Equal(t, "2: one", first.Text())
	require.Empty(t, first.Runner.Thread, "a conversation of one response needs no thread")
	require.Equal(t, "resp_"+strings.TrimPrefix(first.Runner.Run, "run_"), first.ID)
	second := f.Respond(f.Acme, "two", first.ID)
	require.Equal(t, "4: two", second.Text(), "the instructions are in the thread once")
	require.Equal(t, first.ID, second.Previous)
	third := f.Respond(f.Acme, "three", second.ID)
	require.Equal(t, "6: three", third.Text())
	thread := second.Runner.Thread
	require.Equal(t, thread, third.Runner.Thread)
	require.Equal(t, []string{"system: Count.", "user: one", "assistant: 2: one", "user: two", "assistant: 4: two",
		"user: three", "assistant: 6: three"}, f.Said(f.Acme, thread))
	var list struct{ Runs []api.Run }
	f.OK("GET", "/v1/runs?thread="+thread, f.Acme, nil, &list)
	require.Len(t, list.Runs, 3, "the first run has become part of the thread")
	f.OK("GET", "/v1/runs/"+first.Runner.Run+"/history", f.Acme, nil, nil)

	other := f.Respond(f.Acme, "other", first.ID)
	require.Equal(t, "4: other", other.Text())
	require.NotEqual(t, thread, other.Runner.Thread)
	require.Len(t, f.Said(f.Acme, thread), 7, "the thread stays as it was")
	var forks sync.WaitGroup
	threads := make([]string, 5)
	for i := range threads {
		forks.Go(func() {
			r := f.Respond(f.Acme, fmt.Sprint("fork ", i), third.ID)
			threads[i] = r.Runner.Thread
			if text := r.Text(); text != fmt.Sprintf("8: fork %d", i) {
				threads[i] = text
			}
		})
	}
	forks.Wait()
	for _, h := range threads {
		require.Contains(t, h, "thr_")
		require.Len(t, f.Said(f.Acme, h), 9)
	}
	once := f.Respond(f.Acme, "once", third.ID, "Idempotency-Key", "k")
	require.Equal(t, once.ID, f.Respond(f.Acme, "once", third.ID, "Idempotency-Key", "k").ID)
}

// TestPreviousResponseRejects checks that the ids of responses of other tenants and of failed runs
// are rejected.
func TestPreviousResponseRejects(t *testing.T) {
	t.Parallel()
	f := servertest.NewCounting(t)
	first := f.Respond(f.Acme, "one", "")
	h := f.CreateThread(f.Acme, api.CreateThread{})
	f.Send("POST", "/v1/responses", f.Acme, map[string]any{"model": "counter", "input": "fail"})
	var failed struct{ Runs []api.Run }
	f.OK("GET", "/v1/runs?finish_reason=error", f.Acme, nil, &failed)
	require.Len(t, failed.Runs, 1)
	for name, c := range map[string]struct {
		key    string
		fields map[string]any
		status int
	}{
		"another tenant's response": {f.Beta, map[string]any{"previous_response_id": first.ID}, 404},
		"another tenant's thread":   {f.Beta, map[string]any{"conversation": h.ID}, 404},
		"no id":                     {f.Acme, map[string]any{"previous_response_id": "../x"}, 400},
		"no string":                 {f.Acme, map[string]any{"previous_response_id": []any{}}, 400},
		"unknown":                   {f.Acme, map[string]any{"previous_response_id": "resp_none"}, 404},
		"failed": {
			f.Acme,
			map[string]any{"previous_response_id": "resp_" + strings.TrimPrefix(failed.Runs[0].ID, "run_")}, 409,
		},
		"both": {f.Acme, map[string]any{"previous_response_id": first.ID, "conversation": h.ID}, 400},
	} {
		c.fields["model"], c.fields["input"] = "counter", "x"
		r := f.Send("POST", "/v1/responses", c.key, c.fields)
		require.Equal(t, c.status, r.Status, "%s: %s", name, r.Body)
	}
	before := f.CountThreads(f.Acme)
	f.Respond(f.Acme, "two", first.ID)
	f.Send(
		"POST",
		"/v1/responses",
		f.Acme,
		map[string]any{"model": "none", "input": "x", "previous_response_id": first.ID},
	)
	require.Equal(t, before+1, f.CountThreads(f.Acme), "a request that cannot start a run stores no fork")
	chat := map[string]any{"model": "counter", "messages": []any{map[string]any{"role": "user", "content": "hi"}}}
	require.Equal(t, 404, f.Send("POST", "/v1/chat/completions", f.Beta, chat, "X-Thread", h.ID).Status)
	require.Equal(t, 400, f.Send("POST", "/v1/chat/completions", f.Acme, chat, "X-Thread", "x").Status)
	for range 2 {
		require.Equal(t, 200, f.Send("POST", "/v1/chat/completions", f.Acme, chat, "X-Thread", h.ID).Status)
	}
	f.OK("POST", "/v1/responses", f.Acme, map[string]any{"model": "counter", "input": "x", "store": true,
		"conversation": map[string]any{"id": h.ID}}, nil)
	require.Equal(
		t,
		[]string{"user: hi", "assistant: 1: hi", "user: hi", "assistant: 3: hi", "user: x", "assistant: 5: x"},
		f.Said(f.Acme, h.ID),
	)
}

// threadsOf returns the threads that clients of a tenant created with a threadId.
func threadsOf(f *servertest.Fixture, key, id string) []api.Thread {
	f.T.Helper()
	var list struct{ Threads []api.Thread }
	f.OK("GET", "/v1/threads?metadata=agui_thread:"+id, key, nil, &list)
	return list.Threads
}

// TestThreadOfAGUI checks that a threadId selects a stored thread of the client's tenant and agent,
// and that a run continues the messages of this thread.
func TestThreadOfAGUI(t *testing.T) {
	t.Parallel()
	f := servertest.NewCounting(t)
	require.Equal(t, 200, f.Apply(f.Acme, "second", "model: {name: small}\n").Status)
	say := func(key, agent, thread string, messages ...string) string {
		r := f.AGUI(key, agent, thread, messages...)
		require.Equal(t, 200, r.Status, "%s", r.Body)
		return string(r.Body)
	}
	require.Contains(t, say(f.Acme, "counter", "main", "u1", "one"), "1: one")
	require.Contains(t, say(f.Acme, "counter", "main", "u2", "two"), "3: two", "a client without a history continues")
	require.Contains(t, say(f.Acme, "counter", "main", "u1", "one", "u2", "two", "u3", "three"), "4: three",
		"the conversation of the client replaces the answer that it has not got")
	require.Contains(t, say(f.Acme, "second", "main", "u1", "one"), "1: one", "another agent has threads of its own")
	say(f.Beta, "counter", "main", "u1", "one")
	list := threadsOf(f, f.Acme, "main")
	require.Len(t, list, 2)
	require.Len(t, threadsOf(f, f.Beta, "main"), 1)
	require.Len(t, f.Said(f.Beta, threadsOf(f, f.Beta, "main")[0].ID), 2)
	h := list[1]
	require.Equal(t, []string{"user: one", "assistant: 1: one", "user: two", "user: three", "assistant: 4: three"},
		f.Said(f.Acme, h.ID))
	require.Contains(t, say(f.Acme, "second", h.ID, "u9", "nine"), "6: nine", "the id of a thread is a threadId")
	say(f.Beta, "counter", h.ID, "u9", "nine")
	require.Len(t, f.Said(f.Beta, threadsOf(f, f.Beta, h.ID)[0].ID), 2, "another tenant has a thread of its own")
	require.Len(t, f.Said(f.Acme, h.ID), 7)

	for _, id := range []string{strings.Repeat("x", 201), "a\x00", "a\nb", "\u0085"} {
		require.Equal(t, 422, f.AGUI(f.Acme, "counter", id, "u1", "one").Status, "%q", id)
	}
	for _, id := range []string{
		"../../x", "'; DROP TABLE threads", "\u202e", strings.Repeat("ä", 100), "thr_none", "thr_",
	} {
		require.Contains(t, say(f.Acme, "counter", id, "u1", "one"), "1: one")
	}
}

// TestAttachedRunsWait checks requests with an open connection while another run of their thread is
// unfinished. Depending on the thread, they are rejected, wait for the other run, or cancel it.
func TestAttachedRunsWait(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	gate := make(chan struct{})
	f.SetModel(scripted.Func(servertest.GatedReplies(gate)))
	require.Equal(t, 200, f.Apply(f.Acme, "counter", "model: {name: small}\n").Status)
	h := f.CreateThread(f.Acme, api.CreateThread{Agent: "counter"})
	choose := func(choice string) {
		f.OK("PATCH", "/v1/threads/"+h.ID, f.Acme, api.ThreadUpdate{Concurrency: &choice}, nil)
	}
	start := func(text string) (run api.Run) {
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Thread: h.ID, Input: text}, &run)
		return run
	}
	start("wait")
	require.Equal(t, 409, f.AGUI(f.Acme, "counter", h.ID, "u1", "rejected").Status)
	require.Equal(t, 409, f.Send("POST", "/v1/responses", f.Acme,
		map[string]any{"model": "counter", "input": "x", "conversation": h.ID}).Status)
	choose("queue")
	var waiting sync.WaitGroup
	waiting.Go(func() { f.AGUI(f.Acme, "counter", h.ID, "u2", "waits") })
	waiting.Go(func() {
		f.Send("POST", "/v1/responses", f.Acme, map[string]any{"model": "counter", "input": "waits", "conversation": h.ID})
	})
	close(gate)
	waiting.Wait()
	said := f.Said(f.Acme, h.ID)
	require.Equal(t, []string{"user: wait", "assistant: 1: wait", "user: waits", "assistant: 3: waits", "user: waits",
		"assistant: 5: waits"}, said)
	hangs := start("hang")
	choose("cancel")
	require.Contains(t, string(f.AGUI(f.Acme, "counter", h.ID, "u3", "last").Body), "8: last")
	require.Equal(t, "canceled", f.Finished(f.Acme, hangs.ID).FinishReason)
	require.Equal(t, "user: hang", f.Said(f.Acme, h.ID)[6])
	stored, err := f.Store.Tenant("acme").Thread(t.Context(), h.ID)
	require.NoError(t, err)
	require.Empty(t, stored.Run)
}
