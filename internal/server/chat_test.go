package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server/gateway"
)

// TestChatReportsEachTokenOnce checks that each response reports the tokens that its request used,
// even if it ends with a call of a client's tool. No token is reported twice.
func TestChatReportsEachTokenOnce(t *testing.T) {
	t.Parallel()
	calls, says := scripted.Calls(abi.NewToolCall("c1", "mine", "{}")), scripted.Text("done")
	calls.Response.Usage = &abi.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}
	says.Response.Usage = &abi.Usage{PromptTokens: 20, CompletionTokens: 2, TotalTokens: 22}
	f := platform(t, calls, says)
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small}\n").status)
	type message = map[string]any
	tools := []any{
		message{"type": "function", "function": message{"name": "mine", "parameters": message{"type": "object"}}},
	}
	messages := []any{message{"role": "user", "content": "hi"}}
	ask := func() (said message, used abi.Usage) {
		var out struct {
			Choices []struct{ Message message }
			Usage   abi.Usage
		}
		f.ok("POST", "/v1/chat/completions", f.acme, message{"model": "agent", "messages": messages, "tools": tools}, &out)
		return out.Choices[0].Message, out.Usage
	}
	said, used := ask()
	require.Equal(t, *calls.Response.Usage, used)
	id := said["tool_calls"].([]any)[0].(message)["id"]
	messages = append(messages, said, message{"role": "tool", "tool_call_id": id, "content": "seen"})
	said, used = ask()
	require.Equal(t, "done", said["content"])
	require.Equal(t, *says.Response.Usage, used)
}

// TestChatModelFails checks that a failed model call is not an error of the server. The client
// receives only the kind of failure; the run's events have the model's message.
func TestChatModelFails(t *testing.T) {
	t.Parallel()
	f := platform(
		t,
		scripted.Error(
			&model.Error{
				Code:       abi.CodeModel,
				Status:     401,
				Message:    "https://inside.example answered 401: no key sk-1234",
				RetryAfter: 1500 * time.Millisecond,
			},
		),
	)
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small}\n").status)
	r := f.send(
		"POST",
		"/v1/chat/completions",
		f.acme,
		map[string]any{"model": "agent", "messages": []any{map[string]any{"role": "user", "content": "hi"}}},
	)
	p := r.problem(t, 502)
	require.Equal(t, "Model failed", p.Title)
	require.Equal(t, api.ProblemType+api.CodeModelFailed, p.Type)
	require.Contains(t, p.Detail, "the model that the agent asks failed: it answered 401 Unauthorized; run run_")
	require.NotContains(t, string(r.body), "inside")
	require.NotContains(t, string(r.body), "sk-1234")
	require.Equal(t, "model", *p.OpenAI.Code)
	require.Equal(t, "2", r.header.Get("Retry-After"))
}

// TestChatResumesWithTheSameModel checks that a request that resumes a run must name the run's
// agent. Another agent is rejected, and the run remains paused.
func TestChatResumesWithTheSameModel(t *testing.T) {
	t.Parallel()
	f := platform(t, scripted.Calls(abi.NewToolCall("c1", "mine", "{}")), scripted.Text("done"))
	for _, name := range []string{"agent", "other"} {
		require.Equal(t, 200, f.apply(f.acme, name, "model: {name: small}\n").status)
	}
	type message = map[string]any
	tools := []any{
		message{"type": "function", "function": message{"name": "mine", "parameters": message{"type": "object"}}},
	}
	messages := []any{message{"role": "user", "content": "hi"}}
	var out struct{ Choices []struct{ Message message } }
	f.ok("POST", "/v1/chat/completions", f.acme, message{"model": "agent", "messages": messages, "tools": tools}, &out)
	said := out.Choices[0].Message
	id := said["tool_calls"].([]any)[0].(message)["id"]
	messages = append(messages, said, message{"role": "tool", "tool_call_id": id, "content": "seen"})
	for _, model := range []string{"other", "none"} {
		r := f.send("POST", "/v1/chat/completions", f.acme, message{"model": model, "messages": messages, "tools": tools})
		r.problem(t, 409, model)
		var refused struct{ Error api.OpenAIError }
		require.NoError(t, json.Unmarshal(r.body, &refused))
		require.Equal(t, "model", *refused.Error.Param)
		require.Equal(t, "model_mismatch", *refused.Error.Code)
		require.Contains(t, refused.Error.Message, `of the agent "agent"`)
	}
	f.ok("POST", "/v1/chat/completions", f.acme, message{"model": "agent", "messages": messages, "tools": tools}, &out)
	require.Equal(t, "done", out.Choices[0].Message["content"])
}

// TestOpenAIErrors checks that errors of OpenAI's endpoints, including missing ones, are in
// OpenAI's format.
func TestOpenAIErrors(t *testing.T) {
	t.Parallel()
	f := platform(t)
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small}\n").status)
	var model gateway.ChatModel
	f.ok("GET", "/v1/models/agent", f.acme, nil, &model)
	require.Equal(t, "agent", model.ID)
	require.Equal(t, "acme", model.OwnedBy)
	for path, want := range map[string]string{
		"GET /v1/models/none": "agent none: no such agent",
		"POST /v1/embeddings": "no endpoint for POST /v1/embeddings; ",
		"POST /v1/responses":  "no endpoint for",
	} {
		method, at, _ := strings.Cut(path, " ")
		r := f.send(method, at, f.acme, nil)
		r.problem(t, 404, path)
		var out struct{ Error api.OpenAIError }
		require.NoError(t, json.Unmarshal(r.body, &out), path)
		require.Contains(t, out.Error.Message, want, path)
	}
}
