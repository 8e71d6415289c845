package gateway_test

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
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// counter answers each call of the model with its number.
func counter(n int, _ *model.Request) scripted.Reply {
	return scripted.Text(fmt.Sprintf("answer %d", n))
}

// answerText returns the text of an answer, streamed or not, of any model API.
func answerText(r *servertest.Reply) string {
	return strings.Join(regexp.MustCompile(`answer \d+`).FindAllString(string(r.Body), 1), "")
}

// TestRepeatedAnswers checks in every model API that a repeated request with an Idempotency-Key gets
// the answer of the first request. A different request with the same key, and a request of another
// tenant, must not get this answer.
func TestRepeatedAnswers(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	m := scripted.Func(counter)
	f.SetModel(m)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	for path, body := range modelAPIs {
		for _, stream := range []string{"", `,"stream":true`} {
			sent := fmt.Appendf(nil, body, stream)
			key := "key" + strings.ReplaceAll(path, "/", "-") + fmt.Sprint(len(stream))
			before := len(m.Requests())
			first := f.Send("POST", path, f.Acme, sent, "Idempotency-Key", key)
			require.Equal(t, 200, first.Status, "%s", first.Body)
			require.NotEmpty(t, answerText(first))
			second := f.Send("POST", path, f.Acme, sent, "Idempotency-Key", key)
			require.Equal(t, 200, second.Status)
			require.Equal(t, answerText(first), answerText(second))
			require.Len(t, m.Requests(), before+1)
			other := f.Send("POST", path, f.Acme, fmt.Appendf(nil, body, `,"temperature":1`), "Idempotency-Key", key)
			require.Equal(t, 422, other.Status)
			require.Contains(t, string(other.Body), "use a different key")
			require.NotEqual(t, answerText(first), answerText(f.Send("POST", path, f.Acme, sent)), "without the key")
		}
	}
	r := f.Send("POST", "/v1/messages", f.Acme, fmt.Appendf(nil, modelAPIs["/v1/messages"], ""),
		"Idempotency-Key", strings.Repeat("x", 201))
	require.Contains(t, string(r.Body), "more than 200 characters")
}

// TestRepeatedResults checks that a repeated request with the results of tools gets the answer of the first one,
// and the usage of its part of the run.
func TestRepeatedResults(t *testing.T) {
	t.Parallel()
	calls, says := scripted.Calls(abi.NewToolCall("c1", "mine", "{}")), scripted.Text("answer 1")
	calls.Response.Usage = &abi.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}
	says.Response.Usage = &abi.Usage{PromptTokens: 20, CompletionTokens: 2, TotalTokens: 22}
	f := servertest.NewWithReplies(t, calls, says)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	const tools = `,"tools":[{"name":"mine","input_schema":{"type":"object"}}]`
	first := f.Send(
		"POST",
		"/v1/messages",
		f.Acme,
		fmt.Appendf(nil, modelAPIs["/v1/messages"], tools),
		"Idempotency-Key",
		"k1",
	)
	var said struct{ Content json.RawMessage }
	require.NoError(t, json.Unmarshal(first.Body, &said))
	id := regexp.MustCompile(`call_run_[a-z0-9]+\.[a-z0-9_]+`).FindString(string(said.Content))
	require.NotEmpty(t, id, "%s", first.Body)
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
		r := f.Send("POST", "/v1/messages", f.Acme, results("seen"), "Idempotency-Key", "k2")
		require.Equal(t, 200, r.Status, "%s", r.Body)
		require.Equal(t, "answer 1", answerText(r))
		require.Contains(t, string(r.Body), `"usage":{"input_tokens":20,"output_tokens":2}`)
	}
	r := f.Send("POST", "/v1/messages", f.Acme, results("other"), "Idempotency-Key", "k2")
	require.Equal(t, 422, r.Status, "%s", r.Body)
	require.Equal(t, 409, f.Send("POST", "/v1/messages", f.Acme, results("seen"), "Idempotency-Key", "k3").Status)
	again := f.Send(
		"POST",
		"/v1/messages",
		f.Acme,
		fmt.Appendf(nil, modelAPIs["/v1/messages"], tools),
		"Idempotency-Key",
		"k1",
	)
	require.Contains(t, string(again.Body), id, "the first part of the run")
	require.NotContains(t, string(again.Body), "answer")
}

// TestRepeatedResumes checks a repeated request that resumes a run with POST /v1/runs.
func TestRepeatedResumes(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(
		t,
		scripted.Calls(abi.NewToolCall("c1", "calculator", `{"expression":"1"}`)),
		scripted.Text("done"),
	)
	f.Upload(f.Acme, "asks", `import { ask, defineMiddleware } from "@agent-runner/middleware";
export default defineMiddleware({ name: "asks", gateTool: () => ask("may it?") });`)
	require.Equal(t, 200, f.Apply(f.Acme, "agent",
		"model: {name: small}\ntools: {builtin: [calculator]}\nmiddlewares: [{module: asks}]\n").Status)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "agent", Input: "hi"}, &run)
	require.Eventually(t, func() bool {
		f.OK("GET", "/v1/runs/"+run.ID, f.Acme, nil, &run)
		return run.Status == "paused"
	}, time.Minute, 5*time.Millisecond)
	answer := func(text string) map[string]any {
		return map[string]any{
			"run":     run.ID,
			"answers": map[string]any{run.Interrupts[0].ID: map[string]any{"decision": text}},
		}
	}
	for range 2 {
		r := f.Send("POST", "/v1/runs", f.Acme, answer("approve"), "Idempotency-Key", "k1")
		require.Equal(t, 202, r.Status, "%s", r.Body)
		f.Finished(f.Acme, run.ID)
	}
	f.Send("POST", "/v1/runs", f.Acme, answer("deny"), "Idempotency-Key", "k1").Problem(t, 422)
	f.Send("POST", "/v1/runs", f.Acme, answer("approve"), "Idempotency-Key", "k2").Problem(t, 409)
}

// TestConcurrentRepeats checks that concurrent requests with one key share a run, also if the client of the first one
// disconnects.
func TestConcurrentRepeats(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 9), make(chan struct{})
	f := servertest.New(t)
	m := scripted.Func(func(n int, req *model.Request) scripted.Reply {
		asked <- struct{}{}
		<-release
		return counter(n, req)
	})
	f.SetModel(m)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	sent := fmt.Sprintf(modelAPIs["/v1/responses"], "")
	ctx, disconnect := context.WithCancel(t.Context())
	first, err := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/responses", strings.NewReader(sent))
	require.NoError(t, err)
	first.Header.Set("Authorization", "Bearer "+f.Acme)
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
			texts[i] = answerText(f.Send("POST", "/v1/responses", f.Acme, []byte(sent), "Idempotency-Key", "k1"))
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
	f := servertest.New(t)
	m := scripted.Func(counter)
	f.SetModel(m)
	require.Equal(t, 200, f.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	turn := map[string]any{
		"threadId":       "t1",
		"runId":          "r1",
		"state":          map[string]any{},
		"tools":          []any{},
		"context":        []any{},
		"forwardedProps": map[string]any{},
		"messages":       []any{map[string]any{"id": "1", "role": "user", "content": "hi"}},
	}
	ask := func(key string) *servertest.Reply {
		return f.Send("POST", "/v1/agents/agent/agui", f.Acme, turn, "Idempotency-Key", key)
	}
	require.Equal(t, 200, ask("k1").Status)
	require.Contains(t, ask("k1").Problem(t, 409).Detail, "Idempotency-Key")
	require.Equal(t, 200, ask("k2").Status, "the turn is repeated on purpose")
	ask("k2").Problem(t, 409)
	require.Len(t, m.Requests(), 2)
}
