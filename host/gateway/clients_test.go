package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// A scripted upstream calls two tools, and answers once it has the results. Like the vendors' APIs, it
// rejects a history in which a call has no result, or a result no call.
type scripted struct {
	mu     sync.Mutex
	bodies []string
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	var q struct {
		Stream   bool
		Messages []map[string]any
		Input    any
	}
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	calls, results := callsIn(q.Messages, q.Input)
	if calls != results {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"%d calls, %d results"}}`, calls, results)
		return
	}
	write := map[string]func(io.Writer, bool, bool){
		"/v1/chat/completions": chatAnswer, "/v1/responses": responsesAnswer, "/v1/messages": messagesAnswer,
	}[r.URL.Path]
	w.Header().Set("Content-Type", "application/json")
	if q.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	write(w, q.Stream, results > 0)
}

// callsIn counts the calls and the results in a request of any protocol.
func callsIn(messages []map[string]any, input any) (calls, results int) {
	count := func(v any) {
		m, _ := v.(map[string]any)
		switch m["type"] {
		case "tool_use", "function_call":
			calls++
		case "tool_result", "function_call_output":
			results++
		}
	}
	for _, m := range messages {
		if list, ok := m["tool_calls"].([]any); ok {
			calls += len(list)
		}
		if m["role"] == "tool" {
			results++
		}
		if blocks, ok := m["content"].([]any); ok {
			for _, b := range blocks {
				count(b)
			}
		}
	}
	if items, ok := input.([]any); ok {
		for _, it := range items {
			count(it)
		}
	}
	return calls, results
}

// event writes a server-sent event.
func event(w io.Writer, name, data string) {
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", data)
}

const chatCalls = `{"index":0,"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{\"name\":\"x\"}"}},` +
	`{"index":1,"id":"c2","type":"function","function":{"name":"delete_file","arguments":"{\"name\":\"a\"}"}}`

func chatAnswer(w io.Writer, stream, done bool) {
	if !stream {
		message, finish := `{"role":"assistant","content":"Looking.","tool_calls":[`+chatCalls+`]}`, "tool_calls"
		if done {
			message, finish = `{"role":"assistant","content":"It is sunny."}`, "stop"
		}
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":%s,`+
			`"finish_reason":%q}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, message, finish)
		return
	}
	chunk := func(delta, finish string) {
		event(w, "", `{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`+
			delta+`,"finish_reason":`+finish+`}]}`)
	}
	if done {
		chunk(`{"role":"assistant","content":"It is "}`, "null")
		chunk(`{"content":"sunny."}`, "null")
		chunk(`{}`, `"stop"`)
	} else {
		chunk(`{"role":"assistant","content":"Looking."}`, "null")
		chunk(`{"tool_calls":[`+chatCalls+`]}`, "null")
		chunk(`{}`, `"tool_calls"`)
	}
	event(w, "", "[DONE]")
}

func responsesAnswer(w io.Writer, stream, done bool) {
	text := "Looking."
	if done {
		text = "It is sunny."
	}
	items := []string{`{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[` +
		`{"type":"output_text","text":"` + text + `","annotations":[]}]}`}
	if !done {
		items = append(
			items,
			`{"id":"fc_1","type":"function_call","call_id":"c1","name":"get_weather","arguments":"{\"name\":\"x\"}","status":"completed"}`,
			`{"id":"fc_2","type":"function_call","call_id":"c2","name":"delete_file","arguments":"{\"name\":\"a\"}","status":"completed"}`,
		)
	}
	answer := func(status, output string) string {
		return `{"id":"resp_1","object":"response","created_at":1,"status":"` + status + `","model":"m","output":[` + output +
			`],"error":null,"incomplete_details":null,"instructions":null,"metadata":{},"parallel_tool_calls":true,"tools":[],` +
			`"tool_choice":"auto","usage":{"input_tokens":1,"input_tokens_details":{"cached_tokens":0},"output_tokens":1,` +
			`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":2}}`
	}
	whole := answer("completed", strings.Join(items, ","))
	if !stream {
		_, _ = io.WriteString(w, whole)
		return
	}
	n := 0
	send := func(name, fields string) {
		event(w, name, fmt.Sprintf(`{"type":%q,"sequence_number":%d,%s}`, name, n, fields))
		n++
	}
	send("response.created", `"response":`+answer("in_progress", ""))
	const at = `"item_id":"msg_1","output_index":0,"content_index":0,`
	send("response.output_item.added",
		`"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}`)
	send("response.content_part.added", at+`"part":{"type":"output_text","text":"","annotations":[]}`)
	for _, piece := range strings.SplitAfter(text, "is ") {
		send("response.output_text.delta", at+fmt.Sprintf(`"delta":%q`, piece))
	}
	send("response.output_text.done", at+fmt.Sprintf(`"text":%q`, text))
	send("response.content_part.done", at+fmt.Sprintf(`"part":{"type":"output_text","text":%q,"annotations":[]}`, text))
	send("response.output_item.done", `"output_index":0,"item":`+items[0])
	for i, it := range items[1:] {
		var call struct{ ID, Arguments string }
		_ = json.Unmarshal([]byte(it), &call)
		began := strings.NewReplacer(fmt.Sprintf("%q", call.Arguments), `""`, "completed", "in_progress").Replace(it)
		send("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, i+1, began))
		of := fmt.Sprintf(`"item_id":%q,"output_index":%d,`, call.ID, i+1)
		send("response.function_call_arguments.delta", of+fmt.Sprintf(`"delta":%q`, call.Arguments))
		send("response.function_call_arguments.done", of+fmt.Sprintf(`"arguments":%q`, call.Arguments))
		send("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, i+1, it))
	}
	send("response.completed", `"response":`+whole)
}

func messagesAnswer(w io.Writer, stream, done bool) {
	text, reason := "Looking.", "tool_use"
	if done {
		text, reason = "It is sunny.", "end_turn"
	}
	calls := []string{`"id":"c1","name":"get_weather"`, `"id":"c2","name":"delete_file"`}
	if done {
		calls = nil
	}
	if !stream {
		content := fmt.Sprintf(`{"type":"text","text":%q}`, text)
		for _, c := range calls {
			content += `,{"type":"tool_use",` + c + `,"input":{"name":"x"}}`
		}
		fmt.Fprintf(w, `{"id":"m","type":"message","role":"assistant","model":"m","content":[%s],"stop_reason":%q,`+
			`"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`, content, reason)
		return
	}
	event(
		w,
		"message_start",
		`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m",`+
			`"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
	)
	event(w, "content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	for _, piece := range strings.SplitAfter(text, "is ") {
		event(w, "content_block_delta",
			fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, piece))
	}
	event(w, "content_block_stop", `{"type":"content_block_stop","index":0}`)
	for i, c := range calls {
		event(w, "content_block_start",
			fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use",%s,"input":{}}}`, i+1, c))
		event(w, "content_block_delta", fmt.Sprintf(
			`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":"{\"name\":\"x\"}"}}`,
			i+1,
		))
		event(w, "content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i+1))
	}
	event(w, "message_delta", fmt.Sprintf(
		`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":1}}`, reason))
	event(w, "message_stop", `{"type":"message_stop"}`)
}

// TestClients runs a task through each client of the APIs, with three modules: one hides an address in
// requests, one changes streamed text, and one denies a tool. The tool must not run, and the
// client must go on.
func TestClients(t *testing.T) {
	npmtest.Folder(t) // skips the test before it starts servers
	up := &scripted{}
	u := httptest.NewServer(up)
	defer u.Close()
	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	defer h.Close(context.Background())
	modules := ""
	for _, name := range []string{"mask", "loud", "deny"} {
		path, err := filepath.Abs(filepath.Join("testdata", name+".js"))
		require.NoError(t, err)
		modules += fmt.Sprintf("{module: %q},", path)
	}
	text := "routes:\n"
	for _, protocol := range []string{"chat", "responses", "messages"} {
		text += fmt.Sprintf("- {protocol: %s, upstream: %q, middlewares: [%s]}\n", protocol, u.URL, modules)
	}
	f, err := load(t, text)
	require.NoError(t, err)
	g, err := gateway.New(t.Context(), h, f, nil)
	require.NoError(t, err)
	defer g.Close()
	s := httptest.NewServer(g)
	defer s.Close()

	out := npmtest.Script(t, "testdata/clients.mjs", "GATEWAY_URL="+s.URL, "OPENAI_API_KEY=x")
	tasks := 0
	for line := range strings.Lines(out) {
		var got struct {
			Name, Text, Failed string
			Ran                []string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		tasks++
		t.Run(got.Name, func(t *testing.T) {
			require.Empty(t, got.Failed)
			require.Equal(t, []string{"get_weather"}, got.Ran)
			if strings.Contains(got.Name, "stream") && !strings.Contains(got.Name, "stream false") {
				require.Contains(t, got.Text, "It is SUNNY.")
			}
			require.Contains(t, strings.ToLower(got.Text), "it is sunny.")
		})
	}
	require.Equal(t, 18, tasks)
	for _, body := range up.bodies {
		require.NotContains(t, body, "ann@example.com")
	}
}
