package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

// counter answers each call of the model with its number.
func counter(n int, _ *model.Request) scripted.Reply {
	return scripted.Text(fmt.Sprintf("answer %d", n))
}

// answerText returns the text of an answer, streamed or not, of any model API.
func answerText(r *reply) string {
	return strings.Join(regexp.MustCompile(`answer \d+`).FindAllString(string(r.body), 1), "")
}

// TestRepeatedAnswers checks in every model API that a repeated request with an Idempotency-Key gets
// the answer of the first request. A different request with the same key, and a request of another
// tenant, must not get this answer.
func TestRepeatedAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := scripted.Func(counter)
	f.useModel(m)
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small}\n").status)
	for path, body := range modelAPIs {
		for _, stream := range []string{"", `,"stream":true`} {
			sent := fmt.Appendf(nil, body, stream)
			key := "key" + strings.ReplaceAll(path, "/", "-") + fmt.Sprint(len(stream))
			before := len(m.Requests())
			first := f.send("POST", path, f.acme, sent, "Idempotency-Key", key)
			require.Equal(t, 200, first.status, "%s", first.body)
			require.NotEmpty(t, answerText(first))
			second := f.send("POST", path, f.acme, sent, "Idempotency-Key", key)
			require.Equal(t, 200, second.status)
			require.Equal(t, answerText(first), answerText(second))
			require.Len(t, m.Requests(), before+1)
			other := f.send("POST", path, f.acme, fmt.Appendf(nil, body, `,"temperature":1`), "Idempotency-Key", key)
			require.Equal(t, 422, other.status)
			require.Contains(t, string(other.body), "use a different key")
			require.NotEqual(t, answerText(first), answerText(f.send("POST", path, f.acme, sent)), "without the key")
		}
	}
	r := f.send("POST", "/v1/messages", f.acme, fmt.Appendf(nil, modelAPIs["/v1/messages"], ""),
		"Idempotency-Key", strings.Repeat("x", 201))
	require.Contains(t, string(r.body), "more than 200 characters")
}

// TestRepeatedResults checks that a repeated request with the results of tools gets the answer of the first one,
// and the usage of its part of the run.
func TestRepeatedResults(t *testing.T) {
	t.Parallel()
	calls, says := scripted.Calls(abi.NewToolCall("c1", "mine", "{}")), scripted.Text("answer 1")
	calls.Response.Usage = &abi.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}
	says.Response.Usage = &abi.Usage{PromptTokens: 20, CompletionTokens: 2, TotalTokens: 22}
	f := platform(t, calls, says)
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small}\n").status)
	const tools = `,"tools":[{"name":"mine","input_schema":{"type":"object"}}]`
	first := f.send(
		"POST",
		"/v1/messages",
		f.acme,
		fmt.Appendf(nil, modelAPIs["/v1/messages"], tools),
		"Idempotency-Key",
		"k1",
	)
	var said struct{ Content json.RawMessage }
	require.NoError(t, json.Unmarshal(first.body, &said))
	id := regexp.MustCompile(`call_run_[a-z0-9]+\.[a-z0-9_]+`).FindString(string(said.Content))
	require.NotEmpty(t, id, "%s", first.body)
	results := func(text string) []byte {
		return fmt.Appendf(
			nil,
			`{"model":"agent","max_tokens":100,"messages":[{"role":"user","content":"hi"},{"role":"assistant",
			"content":%s},{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}]%s}`,
			said.Content,
			id,
			text,
			tools,
		)
	}
	for range 2 {
		r := f.send("POST", "/v1/messages", f.acme, results("seen"), "Idempotency-Key", "k2")
		require.Equal(t, 200, r.status, "%s", r.body)
		require.Equal(t, "answer 1", answerText(r))
		require.Contains(t, string(r.body), `"usage":{"input_tokens":20,"output_tokens":2}`)
	}
	r := f.send("POST", "/v1/messages", f.acme, results("other"), "Idempotency-Key", "k2")
	require.Equal(t, 422, r.status, "%s", r.body)
	require.Equal(t, 409, f.send("POST", "/v1/messages", f.acme, results("seen"), "Idempotency-Key", "k3").status)
	again := f.send(
		"POST",
		"/v1/messages",
		f.acme,
		fmt.Appendf(nil, modelAPIs["/v1/messages"], tools),
		"Idempotency-Key",
		"k1",
	)
	require.Contains(t, string(again.body), id, "the first part of the run")
	require.NotContains(t, string(again.body), "answer")
}

// TestRepeatedResumes checks a repeated request that resumes a run with POST /v1/runs.
func TestRepeatedResumes(t *testing.T) {
	t.Parallel()
	f := platform(t, scripted.Calls(abi.NewToolCall("c1", "calculator", `{"expression":"1"}`)), scripted.Text("done"))
	f.upload(f.acme, "asks", `import { ask, defineMiddleware } from "@agent-runner/middleware";
export default defineMiddleware({ name: "asks", gateTool: () => ask("may it?") });`)
	require.Equal(t, 200, f.apply(f.acme, "agent",
		"model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares: [{module: asks}]\n").status)
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "agent", Input: "hi"}, &run)
	require.Eventually(t, func() bool {
		f.ok("GET", "/v1/runs/"+run.ID, f.acme, nil, &run)
		return run.Status == "paused"
	}, time.Minute, 5*time.Millisecond)
	answer := func(text string) map[string]any {
		return map[string]any{
			"run":     run.ID,
			"answers": map[string]any{run.Interrupts[0].ID: map[string]any{"decision": text}},
		}
	}
	for range 2 {
		r := f.send("POST", "/v1/runs", f.acme, answer("approve"), "Idempotency-Key", "k1")
		require.Equal(t, 202, r.status, "%s", r.body)
		f.finished(f.acme, run.ID)
	}
	f.send("POST", "/v1/runs", f.acme, answer("deny"), "Idempotency-Key", "k1").problem(t, 422)
	f.send("POST", "/v1/runs", f.acme, answer("approve"), "Idempotency-Key", "k2").problem(t, 409)
}

// TestConcurrentRepeats checks that concurrent requests with one key share a run, also if the client of the first one
// disconnects.
func TestConcurrentRepeats(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 9), make(chan struct{})
	f := newFixture(t)
	m := scripted.Func(func(n int, req *model.Request) scripted.Reply {
		asked <- struct{}{}
		<-release
		return counter(n, req)
	})
	f.useModel(m)
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small}\n").status)
	sent := fmt.Sprintf(modelAPIs["/v1/responses"], "")
	ctx, disconnect := context.WithCancel(t.Context())
	first, err := http.NewRequestWithContext(ctx, "POST", f.url+"/v1/responses", strings.NewReader(sent))
	require.NoError(t, err)
	first.Header.Set("Authorization", "Bearer "+f.acme)
	first.Header.Set("Content-Type", "application/json")
	first.Header.Set("Idempotency-Key", "k1")
	var done sync.WaitGroup
	done.Go(func() {
		if res, err := http.DefaultClient.Do(first); err == nil {
			_ = res.Body.Close()
		}
	})
	<-asked
	disconnect()
	done.Wait()
	texts := make([]string, 3)
	for i := range texts {
		done.Go(func() {
			texts[i] = answerText(f.send("POST", "/v1/responses", f.acme, []byte(sent), "Idempotency-Key", "k1"))
		})
	}
	close(release)
	done.Wait()
	require.NotEmpty(t, texts[0])
	require.Equal(t, []string{texts[0], texts[0], texts[0]}, texts)
	require.Len(t, m.Requests(), 1)
}

// TestRepeatedTurns checks that a repeated AG-UI request with a key starts no second run.
func TestRepeatedTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := scripted.Func(counter)
	f.useModel(m)
	require.Equal(t, 200, f.apply(f.acme, "agent", "model: {name: small}\n").status)
	turn := map[string]any{
		"threadId":       "t1",
		"runId":          "r1",
		"state":          map[string]any{},
		"tools":          []any{},
		"context":        []any{},
		"forwardedProps": map[string]any{},
		"messages":       []any{map[string]any{"id": "1", "role": "user", "content": "hi"}},
	}
	ask := func(key string) *reply {
		return f.send("POST", "/v1/agents/agent/agui", f.acme, turn, "Idempotency-Key", key)
	}
	require.Equal(t, 200, ask("k1").status)
	require.Contains(t, ask("k1").problem(t, 409).Detail, "Idempotency-Key")
	require.Equal(t, 200, ask("k2").status, "the turn is repeated on purpose")
	ask("k2").problem(t, 409)
	require.Len(t, m.Requests(), 2)
}
