package servertest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

// NewCounting returns a fixture with the agent "counter" of the tenants acme and beta. For acme, the model
// answers as [CountingAgent] does.
func NewCounting(t *testing.T) *Fixture {
	t.Helper()
	return NewCountingAt(t, storetest.File(t))
}

// NewCountingAt is like [NewCounting], with the store at the location where. See [NewAt].
func NewCountingAt(t *testing.T, where string) *Fixture {
	t.Helper()
	f := NewAt(t, where)
	f.SetModel(CountingAgent().Model.(*scripted.Model))
	require.Equal(t, 200, f.Apply(f.Acme, "counter", "model: {name: small}\n").Status)
	require.Equal(t, 200, f.Apply(f.Beta, "counter", "model: {name: echo}\n").Status)
	return f
}

// CountThreads returns the number of a tenant's threads.
func (f *Fixture) CountThreads(key string) int {
	f.T.Helper()
	var list struct{ Threads []api.Thread }
	f.OK("GET", "/v1/threads", key, nil, &list)
	return len(list.Threads)
}

// A Response is a response of the Responses API.
type Response struct {
	ID     string
	Output []struct {
		Content []struct{ Text string }
	}
	Previous string                       `json:"previous_response_id"`
	Runner   struct{ Run, Thread string } `json:"agent_runner"`
}

// Text returns the text of the response's first output.
func (r *Response) Text() string { return r.Output[0].Content[0].Text }

// Respond sends a request of the Responses API to the agent "counter".
func (f *Fixture) Respond(key, input, previous string, header ...string) (out Response) {
	f.T.Helper()
	in := map[string]any{"model": "counter", "input": input, "instructions": "Count."}
	if previous != "" {
		in["previous_response_id"] = previous
	}
	r := f.Send("POST", "/v1/responses", key, in, header...)
	require.Equal(f.T, 200, r.Status, "%s", r.Body)
	require.NoError(f.T, json.Unmarshal(r.Body, &out))
	return out
}

// AGUI sends a request of an AG-UI client for one turn. Its messages are pairs of an id and a text.
func (f *Fixture) AGUI(key, agent, thread string, messages ...string) *Reply {
	f.T.Helper()
	list := []any{}
	for i := 0; i < len(messages); i += 2 {
		role := "user"
		if strings.Contains(messages[i], "_run_") {
			role = "assistant"
		}
		list = append(list, map[string]any{"id": messages[i], "role": role, "content": messages[i+1]})
	}
	return f.Send(
		"POST",
		"/v1/agents/"+agent+"/agui",
		key,
		map[string]any{"threadId": thread, "runId": "r", "state": map[string]any{},
			"tools": []any{}, "context": []any{}, "forwardedProps": map[string]any{}, "messages": list},
	)
}

// CreateThread creates a thread.
func (f *Fixture) CreateThread(key string, in api.CreateThread) *api.Thread {
	f.T.Helper()
	var h api.Thread
	require.Equal(f.T, 201, f.OK("POST", "/v1/threads", key, in, &h).Status)
	return &h
}

// Say starts a run with a user's message in a thread, and returns the run when it has ended.
func (f *Fixture) Say(key, thread, text string) *api.Run {
	f.T.Helper()
	var run api.Run
	f.OK("POST", "/v1/runs", key, api.StartRun{Thread: thread, Input: text}, &run)
	require.Equal(f.T, thread, run.Thread)
	return f.Finished(key, run.ID)
}

// Said returns the roles and texts of a thread's messages.
func (f *Fixture) Said(key, thread string) (out []string) {
	f.T.Helper()
	var page struct {
		Messages []api.ThreadMessage
		Next     string `json:"next_cursor"`
	}
	for query := ""; ; query = "?limit=2&cursor=" + page.Next {
		page.Next = ""
		f.OK("GET", "/v1/threads/"+thread+"/messages"+query, key, nil, &page)
		for _, m := range page.Messages {
			var text abi.Message
			require.NoError(f.T, json.Unmarshal(m.Message, &text))
			out = append(out, text.Role+": "+text.Content.String())
		}
		if page.Next == "" {
			return out
		}
	}
}
