package gateway_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/server/gateway"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestChatReportsEachTokenOnce checks that each response reports the tokens that its request used,
// even if it ends with a call of a client's tool. No token may be reported twice.
func TestChatReportsEachTokenOnce(t *testing.T) {
	t.Parallel()
	calls, says := scripted.Calls(abi.NewToolCall("c1", "mine", "{}")), scripted.Text("done")
	calls.Response.Usage = &abi.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}
	says.Response.Usage = &abi.Usage{PromptTokens: 20, CompletionTokens: 2, TotalTokens: 22}
	f := servertest.NewWithReplies(t, calls, says)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
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
		f.OK("POST", "/v1/chat/completions", f.Acme, message{"model": "agent", "messages": messages, "tools": tools}, &out)
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
	f := servertest.NewWithReplies(
		t,
		scripted.Reply{Err: &model.Error{
			Code:       abi.CodeModel,
			Status:     401,
			Message:    "https://inside.example answered 401: no key sk-1234",
			RetryAfter: 1500 * time.Millisecond,
		}},
	)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	r := f.Send(
		"POST",
		"/v1/chat/completions",
		f.Acme,
		map[string]any{"model": "agent", "messages": []any{map[string]any{"role": "user", "content": "hi"}}},
	)
	p := r.Problem(t, 502)
	require.Equal(t, "Model failed", p.Title)
	require.Equal(t, api.ProblemType+api.CodeModelFailed, p.Type)
	require.Contains(t, p.Detail, "the model that the agent asks failed: it answered 401 Unauthorized; run run_")
	require.NotContains(t, string(r.Body), "inside")
	require.NotContains(t, string(r.Body), "sk-1234")
	require.Equal(t, "model", *p.OpenAI.Code)
	require.Equal(t, "2", r.Header.Get("Retry-After"))
}

// TestChatResumesWithTheSameModel checks that a request that resumes a run must name the run's
// agent. Another agent is rejected, and the run remains paused.
func TestChatResumesWithTheSameModel(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t, scripted.Calls(abi.NewToolCall("c1", "mine", "{}")), scripted.Text("done"))
	for _, name := range []string{"agent", "other"} {
		require.Equal(t, 200, f.Apply(f.Acme, name, "model: {name: small}\n").Status)
	}
	type message = map[string]any
	tools := []any{
		message{"type": "function", "function": message{"name": "mine", "parameters": message{"type": "object"}}},
	}
	messages := []any{message{"role": "user", "content": "hi"}}
	var out struct{ Choices []struct{ Message message } }
	f.OK("POST", "/v1/chat/completions", f.Acme, message{"model": "agent", "messages": messages, "tools": tools}, &out)
	said := out.Choices[0].Message
	id := said["tool_calls"].([]any)[0].(message)["id"]
	messages = append(messages, said, message{"role": "tool", "tool_call_id": id, "content": "seen"})
	for _, model := range []string{"other", "none"} {
		r := f.Send("POST", "/v1/chat/completions", f.Acme, message{"model": model, "messages": messages, "tools": tools})
		r.Problem(t, 409, model)
		var refused struct{ Error api.OpenAIError }
		require.NoError(t, json.Unmarshal(r.Body, &refused))
		require.Equal(t, "model", *refused.Error.Param)
		require.Equal(t, "model_mismatch", *refused.Error.Code)
		require.Contains(t, refused.Error.Message, `of the agent "agent"`)
	}
	f.OK("POST", "/v1/chat/completions", f.Acme, message{"model": "agent", "messages": messages, "tools": tools}, &out)
	require.Equal(t, "done", out.Choices[0].Message["content"])
}

// TestOpenAIErrors checks that errors of OpenAI's endpoints, including missing ones, are in
// OpenAI's format.
func TestOpenAIErrors(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	var model gateway.Model
	f.OK("GET", "/v1/models/agent", f.Acme, nil, &model)
	require.Equal(t, "agent", model.ID)
	require.Equal(t, "acme", model.OwnedBy)
	for path, want := range map[string]string{
		"GET /v1/models/none": "agent none: no such agent",
		"POST /v1/embeddings": "no endpoint for POST /v1/embeddings; ",
	} {
		method, at, _ := strings.Cut(path, " ")
		r := f.Send(method, at, f.Acme, nil)
		r.Problem(t, 404, path)
		var out struct{ Error api.OpenAIError }
		require.NoError(t, json.Unmarshal(r.Body, &out), path)
		require.Contains(t, out.Error.Message, want, path)
	}
}

// modelAPIs has the paths of the model APIs, with a request to each.
var modelAPIs = map[string]string{
	"/v1/chat/completions": `{"model":"agent","messages":[{"role":"user","content":"hi"}]%s}`,
	"/v1/responses":        `{"model":"agent","input":"hi"%s}`,
	"/v1/messages":         `{"model":"agent","max_tokens":100,"messages":[{"role":"user","content":"hi"}]%s}`,
}

// TestModelStatus checks that the statuses 400 and 429 of a model reach the clients of all APIs,
// including clients of streams, with the time after which to try again. Other statuses become 502.
func TestModelStatus(t *testing.T) {
	t.Parallel()
	status := 0
	f := servertest.New(t)
	f.SetModel(scripted.Func(func(int, *model.Request) scripted.Reply {
		return scripted.Reply{Err: &model.Error{
			Code: abi.CodeModel, Status: status, Message: "secret of the endpoint", RetryAfter: 7 * time.Second,
		}}

	}))
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small, retries: 0}\n").Status)
	for given, want := range map[int]int{400: 400, 429: 429, 401: 502, 500: 502} {
		status = given
		for path, body := range modelAPIs {
			for _, stream := range []string{"", `,"stream":true`} {
				r := f.Send("POST", path, f.Acme, fmt.Appendf(nil, body, stream))
				require.Equal(t, want, r.Status, "%s %s", path, r.Body)
				require.Contains(t, string(r.Body), "the model that the agent asks failed: it answered "+strconv.Itoa(given))
				require.NotContains(t, string(r.Body), "secret")
				require.Equal(t, "7", r.Header.Get("Retry-After"))
			}
		}
	}
}

// TestAnthropicErrors checks that all errors for Anthropic's clients, including errors of the
// server, are in Anthropic's format.
func TestAnthropicErrors(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	for _, c := range []struct {
		path, key, body string
		status          int
		kind, message   string
	}{
		{"/v1/messages", "", "{}", 401, "authentication_error", "X-Api-Key"},
		{"/v1/messages", f.Acme, "{}", 400, "invalid_request_error", "model"},
		{"/v1/messages", f.Acme, `{"model":"none","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, 404, "not_found_error", "none"},
		{"/v1/messages/count_tokens", f.Acme, "{}", 404, "not_found_error", "agents do not count tokens"},
		{"/v1/messages/batches", f.Acme, "{}", 404, "not_found_error", "no endpoint"},
	} {
		r := f.Send("POST", c.path, c.key, []byte(c.body))
		require.Equal(t, c.status, r.Status, "%s", r.Body)
		var out struct {
			Type      string
			Error     struct{ Type, Message string }
			RequestID string `json:"request_id"`
		}
		require.NoError(t, json.Unmarshal(r.Body, &out))
		require.Equal(t, "error", out.Type)
		require.Equal(t, c.kind, out.Error.Type, "%s", r.Body)
		require.Contains(t, out.Error.Message, c.message)
		require.NotEmpty(t, out.RequestID)
	}
}

// TestRequestParams checks that the parameters of a request replace the agent's parameters, that a
// limit of tokens cannot raise the agent's limit, and that tool_choice applies only to the next model
// call.
func TestRequestParams(t *testing.T) {
	t.Parallel()
	m := scripted.New(scripted.Calls(abi.NewToolCall("c1", "calculator", `{"expression":"1"}`)), scripted.Text("done"))
	f := servertest.New(t)
	f.SetModel(m)
	require.Equal(t, 200, f.Apply(
		f.Acme,
		"agent",
		"model: {name: small, params: {temperature: 1, seed: 5, max_completion_tokens: 50}}\ntools: {builtin: [calculator]}\n",
	).Status)
	r := f.Send("POST", "/v1/messages", f.Acme, []byte(`{"model":"agent","max_tokens":100,"temperature":0.5,
		"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"mine","input_schema":{"type":"object"}}],
		"tool_choice":{"type":"tool","name":"mine"}}`))
	require.Equal(t, 200, r.Status, "%s", r.Body)
	asked := m.Requests()
	require.Len(t, asked, 2)
	want := abi.Params{"temperature": abi.JSON("0.5"), "seed": abi.JSON("5"), "max_completion_tokens": abi.JSON("50")}
	require.Equal(t, want, asked[1].Params)
	want["tool_choice"] = asked[0].Params["tool_choice"]
	require.JSONEq(t, `{"type":"function","function":{"name":"mine"}}`, string(want["tool_choice"]))
	require.Equal(t, want, asked[0].Params)
}

// TestRequestPolicy checks that the agent's file and the operator's rings determine which
// parameters requests may set.
func TestRequestPolicy(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	f.SetModel(scripted.Func(func(int, *model.Request) scripted.Reply { return scripted.Text("done") }))
	ask := func(field string) *servertest.Reply {
		return f.Send("POST", "/v1/messages", f.Acme, fmt.Appendf(nil, modelAPIs["/v1/messages"], ","+field))
	}
	const effort = `"output_config":{"effort":"high"}`
	apply := func(requests string) {
		t.Helper()
		require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n"+requests).Status)
	}
	apply("")
	require.Equal(t, 200, ask(`"temperature":1`).Status)
	require.Equal(t, 400, ask(effort).Status)
	apply("requests: {params: [reasoning_*]}\n")
	require.Equal(t, 400, ask(`"temperature":1`).Status)
	require.Equal(t, 200, ask(effort).Status)
	apply("requests: {params: []}\n")
	require.Equal(t, 400, ask(`"temperature":1`).Status)
	require.Equal(t, 200, ask(`"stream":true`).Status, "max_tokens only lowers the limit")
	apply("requests: {params: [reasoning_effort, temperature]}\n")
	require.Equal(t, 200, f.Apply(f.Operator, "rings", "requests: {params: [temperature]}\n").Status)
	require.Equal(t, 200, ask(`"temperature":1`).Status)
	require.Equal(t, 400, ask(effort).Status)
}

// TestRequestParamsAreStored checks that a run that continues keeps the parameters of its request, unless another
// request of a model API replaces them.
func TestRequestParamsAreStored(t *testing.T) {
	t.Parallel()
	calculate := scripted.Calls(abi.NewToolCall("c1", "calculator", `{"expression":"1"}`))
	mine := func(id string) scripted.Reply { return scripted.Calls(abi.NewToolCall(id, "mine", "{}")) }
	m := scripted.New(calculate, scripted.Text("done"), mine("c1"), mine("c2"), scripted.Text("done"))
	f := servertest.New(t)
	f.SetModel(m)
	f.Upload(f.Acme, "asks", `import { allow, ask, defineMiddleware } from "@agent-runner/middleware";
export default defineMiddleware({ name: "asks", gateTool: ({ call }) => (call.name === "calculator" ? ask("may it?") : allow()) });`)
	require.Equal(t, 200, f.Apply(f.Acme, "agent",
		"model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares: [{module: asks}]\n").Status)
	const tools = `,"tools":[{"type":"function","function":{"name":"mine","parameters":{"type":"object"}}}]`
	begin := fmt.Sprintf(modelAPIs["/v1/chat/completions"], `,"temperature":0.5`+tools)
	var paused struct {
		AgentRunner struct {
			Run        string
			Interrupts []abi.Pending
		} `json:"agent_runner"`
	}
	f.OK("POST", "/v1/chat/completions", f.Acme, []byte(begin), &paused)
	waits := paused.AgentRunner
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{
		Run: waits.Run, Answers: map[string]json.RawMessage{waits.Interrupts[0].ID: json.RawMessage(`{"decision":"approve"}`)},
	}, nil)
	f.Finished(f.Acme, waits.Run)

	ids := regexp.MustCompile(`call_run_[a-z0-9]+\.[a-z0-9_]+`)
	r := f.Send("POST", "/v1/chat/completions", f.Acme, []byte(begin))
	for _, more := range []string{`,"seed":1`, ""} {
		require.Equal(t, 200, r.Status, "%s", r.Body)
		r = f.Send("POST", "/v1/chat/completions", f.Acme, fmt.Appendf(nil, `{"model":"agent","messages":[
			{"role":"tool","tool_call_id":%q,"content":"seen"}]%s}`, ids.Find(r.Body), more+tools))
	}
	require.Equal(t, 200, r.Status, "%s", r.Body)
	var asked []abi.Params
	for _, q := range m.Requests() {
		asked = append(asked, q.Params)
	}
	half, one := abi.Params{"temperature": abi.JSON("0.5")}, abi.Params{"seed": abi.JSON("1")}
	require.Equal(t, []abi.Params{half, half, half, one, {}}, asked)
}
