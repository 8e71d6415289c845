package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

// countingPlatform returns a platform with the agent "counter" of the tenants acme and beta. For
// acme, the model answers as [counting] does.
func countingPlatform(t *testing.T) *fixture {
	t.Helper()
	return countingPlatformAt(t, storetest.File(t))
}

// countingPlatformAt is like [countingPlatform], with the store at the location where.
func countingPlatformAt(t *testing.T, where string) *fixture {
	t.Helper()
	f := newFixtureAt(t, where)
	f.useModel(counting().Model.(*scripted.Model))
	require.Equal(t, 200, f.apply(f.acme, "counter", "model: {name: small}\n").status)
	require.Equal(t, 200, f.apply(f.beta, "counter", "model: {name: echo}\n").status)
	return f
}

// threadCount returns the number of a tenant's threads.
func (f *fixture) threadCount(key string) int {
	f.t.Helper()
	var list struct{ Threads []api.Thread }
	f.ok("GET", "/v1/threads", key, nil, &list)
	return len(list.Threads)
}

// A response is a response of the Responses API.
type response struct {
	ID     string
	Output []struct {
		Content []struct{ Text string }
	}
	Previous string                       `json:"previous_response_id"`
	Runner   struct{ Run, Thread string } `json:"agent_runner"`
}

func (r *response) text() string { return r.Output[0].Content[0].Text }

// respond sends a request of the Responses API to the agent "counter".
func (f *fixture) respond(key, input, previous string, header ...string) (out response) {
	f.t.Helper()
	in := map[string]any{"model": "counter", "input": input, "instructions": "Count."}
	if previous != "" {
		in["previous_response_id"] = previous
	}
	r := f.send("POST", "/v1/responses", key, in, header...)
	require.Equal(f.t, 200, r.status, "%s", r.body)
	require.NoError(f.t, json.Unmarshal(r.body, &out))
	return out
}

// TestPreviousResponse checks that requests continue earlier responses: the last response of a thread
// in this thread, and all others in forks. It also sends such requests concurrently.
func TestPreviousResponse(t *testing.T) {
	t.Parallel()
	f := countingPlatform(t)
	first := f.respond(f.acme, "one", "")
	require.Equal(t, "2: one", first.text())
	require.Empty(t, first.Runner.Thread, "a conversation of one response needs no thread")
	require.Equal(t, "resp_"+strings.TrimPrefix(first.Runner.Run, "run_"), first.ID)
	second := f.respond(f.acme, "two", first.ID)
	require.Equal(t, "4: two", second.text(), "the instructions are in the thread once")
	require.Equal(t, first.ID, second.Previous)
	third := f.respond(f.acme, "three", second.ID)
	require.Equal(t, "6: three", third.text())
	thread := second.Runner.Thread
	require.Equal(t, thread, third.Runner.Thread)
	require.Equal(t, []string{"system: Count.", "user: one", "assistant: 2: one", "user: two", "assistant: 4: two",
		"user: three", "assistant: 6: three"}, f.said(f.acme, thread))
	var list struct{ Runs []api.Run }
	f.ok("GET", "/v1/runs?thread="+thread, f.acme, nil, &list)
	require.Len(t, list.Runs, 3, "the first run has become part of the thread")
	f.ok("GET", "/v1/runs/"+first.Runner.Run+"/history", f.acme, nil, nil)

	other := f.respond(f.acme, "other", first.ID)
	require.Equal(t, "4: other", other.text())
	require.NotEqual(t, thread, other.Runner.Thread)
	require.Len(t, f.said(f.acme, thread), 7, "the thread stays as it was")
	var forks sync.WaitGroup
	threads := make([]string, 5)
	for i := range threads {
		forks.Go(func() {
			r := f.respond(f.acme, fmt.Sprint("fork ", i), third.ID)
			threads[i] = r.Runner.Thread
			if text := r.text(); text != fmt.Sprintf("8: fork %d", i) {
				threads[i] = text
			}
		})
	}
	forks.Wait()
	for _, h := range threads {
		require.Contains(t, h, "thr_")
		require.Len(t, f.said(f.acme, h), 9)
	}
	once := f.respond(f.acme, "once", third.ID, "Idempotency-Key", "k")
	require.Equal(t, once.ID, f.respond(f.acme, "once", third.ID, "Idempotency-Key", "k").ID)
}

// TestPreviousResponseRejects checks that the ids of responses of other tenants and of failed runs
// are rejected.
func TestPreviousResponseRejects(t *testing.T) {
	t.Parallel()
	f := countingPlatform(t)
	first := f.respond(f.acme, "one", "")
	h := f.thread(f.acme, api.CreateThread{})
	f.send("POST", "/v1/responses", f.acme, map[string]any{"model": "counter", "input": "fail"})
	var failed struct{ Runs []api.Run }
	f.ok("GET", "/v1/runs?finish_reason=error", f.acme, nil, &failed)
	require.Len(t, failed.Runs, 1)
	for name, c := range map[string]struct {
		key    string
		fields map[string]any
		status int
	}{
		"another tenant's response": {f.beta, map[string]any{"previous_response_id": first.ID}, 404},
		"another tenant's thread":   {f.beta, map[string]any{"conversation": h.ID}, 404},
		"no id":                     {f.acme, map[string]any{"previous_response_id": "../x"}, 400},
		"no string":                 {f.acme, map[string]any{"previous_response_id": []any{}}, 400},
		"unknown":                   {f.acme, map[string]any{"previous_response_id": "resp_none"}, 404},
		"failed": {
			f.acme,
			map[string]any{"previous_response_id": "resp_" + strings.TrimPrefix(failed.Runs[0].ID, "run_")}, 409,
		},
		"both": {f.acme, map[string]any{"previous_response_id": first.ID, "conversation": h.ID}, 400},
	} {
		c.fields["model"], c.fields["input"] = "counter", "x"
		r := f.send("POST", "/v1/responses", c.key, c.fields)
		require.Equal(t, c.status, r.status, "%s: %s", name, r.body)
	}
	before := f.threadCount(f.acme)
	f.respond(f.acme, "two", first.ID)
	f.send(
		"POST",
		"/v1/responses",
		f.acme,
		map[string]any{"model": "none", "input": "x", "previous_response_id": first.ID},
	)
	require.Equal(t, before+1, f.threadCount(f.acme), "a request that cannot start a run stores no fork")
	chat := map[string]any{"model": "counter", "messages": []any{map[string]any{"role": "user", "content": "hi"}}}
	require.Equal(t, 404, f.send("POST", "/v1/chat/completions", f.beta, chat, "X-Thread", h.ID).status)
	require.Equal(t, 400, f.send("POST", "/v1/chat/completions", f.acme, chat, "X-Thread", "x").status)
	for range 2 {
		require.Equal(t, 200, f.send("POST", "/v1/chat/completions", f.acme, chat, "X-Thread", h.ID).status)
	}
	f.ok("POST", "/v1/responses", f.acme, map[string]any{"model": "counter", "input": "x", "store": true,
		"conversation": map[string]any{"id": h.ID}}, nil)
	require.Equal(
		t,
		[]string{"user: hi", "assistant: 1: hi", "user: hi", "assistant: 3: hi", "user: x", "assistant: 5: x"},
		f.said(f.acme, h.ID),
	)
}

// agui sends a request of an AG-UI client for one turn. Its messages are pairs of an id and a text.
func (f *fixture) agui(key, agent, thread string, messages ...string) *reply {
	f.t.Helper()
	list := []any{}
	for i := 0; i < len(messages); i += 2 {
		role := "user"
		if strings.Contains(messages[i], "_run_") {
			role = "assistant"
		}
		list = append(list, map[string]any{"id": messages[i], "role": role, "content": messages[i+1]})
	}
	return f.send(
		"POST",
		"/v1/agents/"+agent+"/agui",
		key,
		map[string]any{"threadId": thread, "runId": "r", "state": map[string]any{},
			"tools": []any{}, "context": []any{}, "forwardedProps": map[string]any{}, "messages": list},
	)
}

// threadsOf returns the threads that clients of a tenant created with a threadId.
func (f *fixture) threadsOf(key, id string) []api.Thread {
	f.t.Helper()
	var list struct{ Threads []api.Thread }
	f.ok("GET", "/v1/threads?metadata=agui_thread:"+id, key, nil, &list)
	return list.Threads
}

// TestThreadOfAGUI checks that a threadId selects a stored thread of the client's tenant and agent,
// and that a run continues the messages of this thread.
func TestThreadOfAGUI(t *testing.T) {
	t.Parallel()
	f := countingPlatform(t)
	require.Equal(t, 200, f.apply(f.acme, "second", "model: {name: small}\n").status)
	say := func(key, agent, thread string, messages ...string) string {
		r := f.agui(key, agent, thread, messages...)
		require.Equal(t, 200, r.status, "%s", r.body)
		return string(r.body)
	}
	require.Contains(t, say(f.acme, "counter", "main", "u1", "one"), "1: one")
	require.Contains(t, say(f.acme, "counter", "main", "u2", "two"), "3: two", "a client without a history continues")
	require.Contains(t, say(f.acme, "counter", "main", "u1", "one", "u2", "two", "u3", "three"), "4: three",
		"the conversation of the client replaces the answer that it has not got")
	require.Contains(t, say(f.acme, "second", "main", "u1", "one"), "1: one", "another agent has threads of its own")
	say(f.beta, "counter", "main", "u1", "one")
	list := f.threadsOf(f.acme, "main")
	require.Len(t, list, 2)
	require.Len(t, f.threadsOf(f.beta, "main"), 1)
	require.Len(t, f.said(f.beta, f.threadsOf(f.beta, "main")[0].ID), 2)
	h := list[1]
	require.Equal(t, []string{"user: one", "assistant: 1: one", "user: two", "user: three", "assistant: 4: three"},
		f.said(f.acme, h.ID))
	require.Contains(t, say(f.acme, "second", h.ID, "u9", "nine"), "6: nine", "the id of a thread is a threadId")
	say(f.beta, "counter", h.ID, "u9", "nine")
	require.Len(t, f.said(f.beta, f.threadsOf(f.beta, h.ID)[0].ID), 2, "another tenant has a thread of its own")
	require.Len(t, f.said(f.acme, h.ID), 7)

	for _, id := range []string{strings.Repeat("x", 201), "a\x00", "a\nb", "\u0085"} {
		require.Equal(t, 422, f.agui(f.acme, "counter", id, "u1", "one").status, "%q", id)
	}
	for _, id := range []string{
		"../../x", "'; DROP TABLE threads", "\u202e", strings.Repeat("ä", 100), "thr_none", "thr_",
	} {
		require.Contains(t, say(f.acme, "counter", id, "u1", "one"), "1: one")
	}
}

// TestAttachedRunsWait checks requests with an open connection while another run of their thread is
// unfinished. Depending on the thread, they are rejected, wait for the other run, or cancel it.
func TestAttachedRunsWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gate := make(chan struct{})
	f.useModel(scripted.Func(gated(gate)))
	require.Equal(t, 200, f.apply(f.acme, "counter", "model: {name: small}\n").status)
	h := f.thread(f.acme, api.CreateThread{Agent: "counter"})
	choose := func(choice string) {
		f.ok("PATCH", "/v1/threads/"+h.ID, f.acme, api.ThreadUpdate{Concurrency: &choice}, nil)
	}
	start := func(text string) (run api.Run) {
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Thread: h.ID, Input: text}, &run)
		return run
	}
	start("wait")
	require.Equal(t, 409, f.agui(f.acme, "counter", h.ID, "u1", "rejected").status)
	require.Equal(t, 409, f.send("POST", "/v1/responses", f.acme,
		map[string]any{"model": "counter", "input": "x", "conversation": h.ID}).status)
	choose("queue")
	var waiting sync.WaitGroup
	waiting.Go(func() { f.agui(f.acme, "counter", h.ID, "u2", "waits") })
	waiting.Go(func() {
		f.send("POST", "/v1/responses", f.acme, map[string]any{"model": "counter", "input": "waits", "conversation": h.ID})
	})
	close(gate)
	waiting.Wait()
	said := f.said(f.acme, h.ID)
	require.Equal(t, []string{"user: wait", "assistant: 1: wait", "user: waits", "assistant: 3: waits", "user: waits",
		"assistant: 5: waits"}, said)
	hangs := start("hang")
	choose("cancel")
	require.Contains(t, string(f.agui(f.acme, "counter", h.ID, "u3", "last").body), "8: last")
	require.Equal(t, "canceled", f.finished(f.acme, hangs.ID).FinishReason)
	require.Equal(t, "user: hang", f.said(f.acme, h.ID)[6])
	stored, err := f.store.Tenant("acme").Thread(t.Context(), h.ID)
	require.NoError(t, err)
	require.Empty(t, stored.Run)
}
