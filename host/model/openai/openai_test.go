package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-very-secret"

// serve returns a client of an endpoint that answers with fn.
func serve(t *testing.T, opts Options, fn http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(fn)
	t.Cleanup(s.Close)
	opts.BaseURL, opts.APIKey = s.URL+"/v1", key
	c, err := New(opts)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func answers(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// sse writes events as most endpoints do.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

// delta is an event with a piece of a message, finish one that ends it.
func delta(d string) string {
	return `{"choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}
func finish(f string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + f + `"}]}`
}

func ask() *model.Request {
	return &model.Request{Model: "m", Messages: []abi.Message{abi.User("hi")}}
}

func stream(t *testing.T, c *Client) (*abi.Response, []abi.Chunk, error) {
	t.Helper()
	var chunks []abi.Chunk
	res, err := c.Generate(t.Context(), ask(), func(c abi.Chunk) error {
		require.NoError(t, c.Check())
		chunks = append(chunks, c)
		return nil
	})
	return res, chunks, err
}

func message(t *testing.T, res *abi.Response) string {
	t.Helper()
	b, err := json.Marshal(res.Message)
	require.NoError(t, err)
	return string(b)
}

func said(chunks []abi.Chunk) string {
	b, err := json.Marshal(chunks)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// The ways in which endpoints stream what is at heart the same.
func TestStreams(t *testing.T) {
	t.Parallel()
	hello := sse(delta(`{"role":"assistant","content":""}`), delta(`{"content":"hel"}`), delta(`{"content":"lo"}`), finish("stop"), "[DONE]")
	callsMessage := `{"role":"assistant","content":null,"tool_calls":[` +
		`{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}},` +
		`{"id":"c2","type":"function","function":{"name":"sub","arguments":"{\"b\":2}"}}]}`
	for name, tc := range map[string]struct {
		body    string
		message string
		finish  string
		chunks  string // not looked at if empty
	}{
		"plain": {
			body: hello, message: `{"role":"assistant","content":"hello"}`,
			chunks: `[{"kind":"text","text":"hel"},{"kind":"text","text":"lo"}]`,
		},
		"no done, no blank line, no space, carriage returns": {
			body:    "data:" + delta(`{"content":"hello"}`) + "\r\ndata:" + finish("stop"),
			message: `{"role":"assistant","content":"hello"}`,
		},
		"byte order mark": {body: "\ufeff" + hello, message: `{"role":"assistant","content":"hello"}`},
		"a thousand comments": {
			body: strings.Repeat(": OPENROUTER PROCESSING\n\n", 1000) + hello, message: `{"role":"assistant","content":"hello"}`,
		},
		"an event of several lines": {
			body:    "event: message\nid: 7\ndata: {\"choices\":\ndata: [{\"delta\":{\"content\":\"hello\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n",
			message: `{"role":"assistant","content":"hello"}`,
		},
		"events without choices": {
			body: sse(`{"choices":[],"prompt_filter_results":[]}`, `{"type":"ping"}`, `{"object":"chat.completion.chunk"}`) + hello, message: `{"role":"assistant","content":"hello"}`,
		},
		"other choices": {
			body:    sse(`{"choices":[{"index":1,"delta":{"content":"no"}}]}`, `{"choices":[{"delta":{"content":"yes"},"finish_reason":"length"},{"index":2,"delta":{"content":"no"}}]}`),
			message: `{"role":"assistant","content":"yes"}`, finish: "length",
		},
		"empty finish reasons": {
			body: sse(`{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}`, finish("stop")), message: `{"role":"assistant","content":"a"}`,
		},
		"a document where a stream was asked for": {
			body:    "\n\n  {\"choices\":[{\"index\":0,\n\"message\":{\"role\":\"assistant\",\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n",
			message: `{"role":"assistant","content":"hello"}`, chunks: `[{"kind":"text","text":"hello"}]`,
		},
		"a document without a finish reason": {
			body:    `{"choices":[{"message":{"content":"","tool_calls":[{"id":"c1","function":{"name":"now","arguments":{"zone": "UTC"}}}]}}]}`,
			message: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"now","arguments":"{\"zone\":\"UTC\"}"}}]}`,
			finish:  "tool_calls",
		},
		"cut behind the end": {
			body: sse(delta(`{"content":"hello"}`), finish("stop")) + `data: {"usa`, message: `{"role":"assistant","content":"hello"}`,
		},
		"nothing said": {body: sse(finish("stop")), message: `{"role":"assistant","content":""}`},
		"reasoning_content": {
			body:    sse(delta(`{"reasoning_content":"hm"}`), delta(`{"reasoning_content":"m","content":null}`), delta(`{"content":"a"}`), finish("stop")),
			message: `{"role":"assistant","content":"a","reasoning_content":"hmm"}`,
			chunks:  `[{"kind":"reasoning","text":"hm"},{"kind":"reasoning","text":"m"},{"kind":"text","text":"a"}]`,
		},
		"reasoning": {
			body: sse(delta(`{"reasoning":"hm"}`), finish("stop")), message: `{"role":"assistant","content":"","reasoning_content":"hm"}`,
		},
		"both": {
			body:    sse(delta(`{"reasoning":"hm","reasoning_content":"hm"}`), finish("stop")),
			message: `{"role":"assistant","content":"","reasoning_content":"hm"}`,
		},
		"reasoning that is no text": {
			body:    sse(delta(`{"reasoning":{"steps":1}}`), finish("stop")),
			message: `{"role":"assistant","content":"","reasoning":{"steps":1}}`,
		},
		"content in parts": {
			body:    sse(delta(`{"content":[{"type":"thinking","thinking":[1.50]},{"type":"text","text":"a"}]}`), delta(`{"content":[{"type":"text","text":"b"}]}`), delta(`{"content":"c"}`), finish("stop")),
			message: `{"role":"assistant","content":[{"type":"thinking","thinking":[1.50]},{"type":"text","text":"abc"}]}`,
			chunks:  `[{"kind":"part","part":{"type":"thinking","thinking":[1.50]}},{"kind":"text","text":"a"},{"kind":"text","text":"b"},{"kind":"text","text":"c"}]`,
		},
		"text in parts": {
			body:    sse(delta(`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), finish("stop")),
			message: `{"role":"assistant","content":"ab"}`,
		},
		"unknown fields": {
			body:    sse(delta(`{"refusal":null,"annotations":[{"n":1.0}]}`), delta(`{"refusal":"I ca","annotations":[]}`), delta(`{"refusal":"n't","annotations":[{"n":2}],"score":1}`), delta(`{"refusal":null,"score":2.50}`), finish("stop")),
			message: `{"role":"assistant","content":"","refusal":"I can't","annotations":[{"n":1.0},{"n":2}],"score":2.50}`,
		},
		"the host's own fields": {
			body:    sse(delta(`{"content":"a","id":"m1","origin":"user","extra":{"x":1},"role":"user"}`), finish("stop")),
			message: `{"role":"assistant","content":"a"}`,
		},
		"broken characters": {
			body:    sse(delta("{\"content\":\"a\xffb\",\"note\":\"\xfe\"}"), delta(`{"content":"\ud83d","twice":1,"twice":2}`), finish("stop")),
			message: "{\"role\":\"assistant\",\"content\":\"a\ufffdb\ufffd\",\"note\":\"\ufffd\",\"twice\":2}",
		},
		"calls by index": {
			body: sse(
				delta(`{"content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"add","arguments":""}}]}`),
				delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}`),
				delta(`{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"sub","arguments":""}}]}`),
				delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\":2}"}},{"index":0,"function":{"arguments":":1}"}}]}`),
				finish("tool_calls"), "[DONE]"),
			message: callsMessage, finish: "tool_calls",
			chunks: `[{"kind":"tool_call","index":0,"id":"c1","name":"add","arguments":"{\"a\""},` +
				`{"kind":"tool_call","index":1,"id":"c2","name":"sub","arguments":"{\"b\":2}"},` +
				`{"kind":"tool_call","index":0,"arguments":":1}"}]`,
		},
		"calls without index": {
			body: sse(
				delta(`{"tool_calls":[{"id":"c1","function":{"name":"add","arguments":"{\"a\""}}]}`), delta(`{"tool_calls":[{"function":{"arguments":":1}"}}]}`),
				delta(`{"tool_calls":[{"id":"c2","function":{"name":"sub"}}]}`), delta(`{"tool_calls":[{"id":"c2","function":{"arguments":"{\"b\":2}"}}]}`), finish("tool_calls")),
			message: callsMessage, finish: "tool_calls",
		},
		"whole calls, all with index 0": {
			body:    sse(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":"{\"a\":1}"}}]}`), delta(`{"tool_calls":[{"index":0,"id":"c2","function":{"name":"sub","arguments":"{\"b\":2}"}}]}`), finish("tool_calls")),
			message: callsMessage, finish: "tool_calls",
		},
		"id and name again with each piece": {
			body: sse(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":""}}]}`), delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":"{\"a\":"}}]}`),
				delta(`{"tool_calls":[{"index":0,"id":"x9","function":{"name":"add","arguments":"1}"}}]}`), delta(`{"tool_calls":[{"index":1,"id":"c2","function":{"name":"sub","arguments":"{\"b\":2}"}}]}`), finish("tool_calls")),
			message: callsMessage, finish: "tool_calls",
		},
		"a name in pieces": {
			body:    sse(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"ad"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"name":"d"}}]}`), finish("tool_calls")),
			message: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":""}}]}`, finish: "tool_calls",
			chunks: `[{"kind":"tool_call","index":0,"id":"c1","name":"add","arguments":""}]`,
		},
		"no ids, and the same twice": {
			body:    sse(delta(`{"tool_calls":[{"function":{"name":"add","arguments":"{}"}},{"function":{"name":"add","arguments":"{}"}}]}`), finish("tool_calls")),
			message: `{"role":"assistant","content":null,"tool_calls":[{"id":"","type":"function","function":{"name":"add","arguments":"{}"}},{"id":"","type":"function","function":{"name":"add","arguments":"{}"}}]}`, finish: "tool_calls",
		},
		"unknown fields of a call": {
			body:    sse(delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":"{}"},"extra_content":{"google":{"thought_signature":"AAA"}}}]}`), finish("tool_calls")),
			message: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{}"},"extra_content":{"google":{"thought_signature":"AAA"}}}]}`, finish: "tool_calls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, Options{}, answers("text/event-stream", tc.body))
			res, chunks, err := stream(t, c)
			require.NoError(t, err)
			require.Equal(t, tc.message, message(t, res))
			if tc.finish == "" {
				tc.finish = "stop"
			}
			require.Equal(t, tc.finish, res.FinishReason)
			if tc.chunks != "" {
				require.JSONEq(t, tc.chunks, said(chunks))
			}
			whole, err := c.Generate(t.Context(), ask(), nil)
			require.NoError(t, err)
			require.Equal(t, res, whole, "without a sink the response is the same")
		})
	}
}

func manyFields(n int) string {
	fields := map[string]int{}
	for i := range n {
		fields[fmt.Sprint("f", i)] = i
	}
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// The ways in which endpoints fail, and what comes of them.
func TestFailures(t *testing.T) {
	t.Parallel()
	text := delta(`{"content":"he"}`)
	for name, tc := range map[string]struct {
		status    int
		header    map[string]string
		body      string
		want      []string
		retryable bool
		after     time.Duration
		maxEvent  int
	}{
		"401":                   {status: 401, body: `{"error":{"message":"Incorrect API key provided: ` + key + `"}}`, want: []string{"answered 401 Unauthorized: Incorrect API key provided: ***; check that OPENAI_API_KEY"}},
		"403":                   {status: 403, body: `{"error":"not yours"}`, want: []string{"403 Forbidden: not yours", `OPENAI_API_KEY may use model "m"`}},
		"404":                   {status: 404, body: `<html><head><title>Not\nFound</title></head></html>`, want: []string{`an HTML page, "Not`, `has model "m" (--model)`, "OPENAI_BASE_URL"}},
		"400":                   {status: 400, body: `[{"error":{"code":400,"message":"bad schema","status":"INVALID_ARGUMENT"}}]`, want: []string{"400 Bad Request: bad schema"}},
		"422":                   {status: 422, body: `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`, want: []string{"422", `[{"loc":["body","messages"]`}},
		"408":                   {status: 408, retryable: true},
		"409":                   {status: 409, retryable: true},
		"429":                   {status: 429, header: map[string]string{"Retry-After": "7"}, body: `{"error":{"message":"slow down","type":"requests"}}`, want: []string{"429 Too Many Requests: slow down"}, retryable: true, after: 7 * time.Second},
		"429 in milliseconds":   {status: 429, header: map[string]string{"Retry-After": "7", "Retry-After-Ms": "1500"}, retryable: true, after: 1500 * time.Millisecond},
		"429 without money":     {status: 429, body: `{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}`, want: []string{"nothing left to spend"}},
		"500":                   {status: 500, body: "oops\x00\xff\n" + strings.Repeat("x", 100_000), want: []string{"500 Internal Server Error: oops \ufffd xxx", "…"}, retryable: true},
		"502":                   {status: 502, body: "<!DOCTYPE html>\n<h1>bad", want: []string{"502 Bad Gateway: an HTML page"}, retryable: true},
		"529":                   {status: 529, want: []string{"answered 529"}, retryable: true},
		"redirect":              {status: 307, header: map[string]string{"Location": "https://user:pw@example.com/v2/chat/completions?key=x"}, want: []string{"if https://example.com/v2 is right, use it for --base-url"}},
		"HTML":                  {body: "<html><title>Sign in</title>", want: []string{`not JSON: an HTML page, "Sign in"; check that it is the address`}},
		"text":                  {body: "hello", want: []string{"not JSON: hello"}},
		"half a document":       {body: `{"choices":[{"mess`, want: []string{"JSON that is not whole"}, retryable: true},
		"nothing":               {body: "", want: []string{"without a finish_reason"}, retryable: true},
		"no choices":            {body: `{"choices":[]}`, want: []string{"no choices"}, retryable: true},
		"error in a document":   {body: `{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}`, want: []string{"an error: no such model"}},
		"error object":          {body: `{"object":"error","message":"busy","code":503}`, want: []string{"busy"}, retryable: true},
		"cut":                   {body: sse(text), want: []string{"without a finish_reason"}, retryable: true},
		"done but not finished": {body: sse(text, "[DONE]"), want: []string{"without a finish_reason"}, retryable: true},
		"error event":           {body: sse(text, `{"error":{"message":"overloaded","type":"overloaded_error","code":529}}`), want: []string{"an error: overloaded"}, retryable: true},
		"type first":            {body: sse(text, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`), want: []string{"an error: slow down"}, retryable: true},
		"type and message":      {body: sse(text, `{"type":"error","message":"context too long","code":"context_length_exceeded"}`), want: []string{"context too long"}},
		"error after comments":  {body: ": ping\n\n: ping\n\n" + sse(`{"error":{"message":{"odd":1}}}`), want: []string{`{"odd":1}`}, retryable: true},
		"named event":           {body: sse(text) + "event: error\ndata: upstream is gone\n\n", want: []string{"upstream is gone"}, retryable: true},
		"named JSON event":      {body: sse(text) + "event: error\ndata: {\"message\":\"no\",\"code\":400}\n\n", want: []string{"an error: no"}},
		"error in a choice":     {body: sse(`{"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":502,"message":"provider down"}}]}`), want: []string{"provider down"}, retryable: true},
		"event not JSON":        {body: sse("{choices}"), want: []string{"an event that is not JSON: { choices}"}, retryable: true},
		"event of another kind": {body: sse(`"hello"`), want: []string{"an event of another shape"}, retryable: true},
		"choice of another":     {body: sse(`{"choices":[1]}`), want: []string{"a choice of another shape"}, retryable: true},
		"message of another":    {body: sse(delta(`[1]`)), want: []string{"a message of another shape"}, retryable: true},
		"content of another":    {body: sse(delta(`{"content":7}`)), want: []string{"content of another shape"}, retryable: true},
		"calls of another":      {body: sse(delta(`{"tool_calls":{}}`)), want: []string{"tool calls of another shape"}, retryable: true},
		"call of another":       {body: sse(delta(`{"tool_calls":[7]}`)), want: []string{"a tool call of another shape"}, retryable: true},
		"deep":                  {body: sse(delta(`{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`)), want: []string{"not JSON"}, retryable: true},
		"large event":           {body: "data: " + strings.Repeat("x", 5000) + "\n\n", want: []string{"an event of more than 4096 bytes"}},
		"large event in lines":  {body: strings.Repeat("data: xxxx\n", 1000), want: []string{"an event of more than 4096 bytes"}},
		"large answer":          {body: sse(text) + strings.Repeat(":"+strings.Repeat("x", 1000)+"\n", 70), want: []string{"more than 65536 bytes"}},
		"large document":        {body: `{"x":"` + strings.Repeat("x", 70_000) + `"}`, want: []string{"more than 65536 bytes"}},
		"many calls":            {body: sse(delta(`{"tool_calls":[` + strings.Repeat(`{"function":{"name":"f","arguments":"{}"}},`, 1024) + `{"function":{"name":"f","arguments":"{}"}}]}`)), maxEvent: 65536, want: []string{"more than 1024 tool calls"}},
		"many fields":           {body: sse(delta(manyFields(257))), maxEvent: 65536, want: []string{"more than 256 fields"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := Options{MaxEvent: max(4096, tc.maxEvent), MaxAnswer: 65536}
			c := serve(t, opts, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range tc.header {
					w.Header().Set(k, v)
				}
				if tc.status != 0 {
					w.WriteHeader(tc.status)
				}
				_, _ = io.WriteString(w, tc.body)
			})
			_, _, err := stream(t, c)
			var e *model.Error
			require.ErrorAs(t, err, &e)
			for _, want := range append(tc.want, c.shown) {
				require.Contains(t, e.Message, want)
			}
			require.NotContains(t, err.Error(), key)
			require.NotContains(t, fmt.Sprintf("%+v", errors.Unwrap(err)), key)
			require.Equal(t, tc.retryable, e.Retryable, e.Message)
			require.Equal(t, tc.after, e.RetryAfter)
			require.Equal(t, abi.CodeModel, e.Code)
			require.Less(t, len(e.Message), 1500)
			require.NotContains(t, e.Message, "\n")
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	c := serve(t, Options{}, answers("text/event-stream", sse(
		delta(`{"content":"a"}`), finish("stop"),
		`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4.0,"total_tokens":null,"details":{"cached":1}}}`, "[DONE]")))
	res, _, err := stream(t, c)
	require.NoError(t, err)
	require.Equal(t, &abi.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}, res.Usage)
}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	var got struct {
		path, body string
		header     http.Header
	}
	c := serve(t, Options{Headers: map[string]string{"X-Team": "blue"}}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got.path, got.body, got.header = r.URL.RequestURI(), string(b), r.Header
		answers("application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`)(w, r)
	})
	var assistant abi.Message
	require.NoError(t, json.Unmarshal([]byte(`{"role":"assistant","content":[{"type":"video","video":{"fps":30.0}}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{ }"},"extra_content":{"s":1e3}}],"refusal":null}`), &assistant))
	assistant.ID, assistant.Origin, assistant.Extra, assistant.ReasoningContent = "m7", abi.OriginModel, json.RawMessage(`{"x":1}`), "hm"
	req := &model.Request{
		Model:    "o1", // one that go-openai has opinions on
		Messages: []abi.Message{abi.System("a <b> & c"), assistant},
		Tools: []abi.Tool{
			{Name: "f", Description: "does", Parameters: json.RawMessage(`{"type":"object","x-unknown":1.0}`), Owner: "host", Idempotent: true}, {Name: "g"},
		},
		Params: abi.Params{"temperature": json.RawMessage("0"), "max_tokens": json.RawMessage("10"), "seed": json.RawMessage("1.0"), "new_thing": json.RawMessage(`{"a":[null,0]}`), "stream_options": json.RawMessage(`{}`)},
	}
	const sent = `{"model":"o1","messages":[{"role":"system","content":"a <b> & c"},` +
		`{"role":"assistant","content":[{"type":"video","video":{"fps":30.0}}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{ }"},"extra_content":{"s":1e3}}],"reasoning_content":"hm","refusal":null}],` +
		`"tools":[{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object","x-unknown":1.0}}},` +
		`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],`
	const params = `"max_tokens":10,"new_thing":{"a":[null,0]},"seed":1.0,`

	_, err := c.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Equal(t, "/v1/chat/completions", got.path)
	require.Equal(t, sent+params+`"temperature":0}`, got.body, "stream_options only go with stream")
	require.Equal(t, "Bearer "+key, got.header.Get("Authorization"))
	require.Equal(t, "blue", got.header.Get("X-Team"))
	require.Equal(t, "application/json", got.header.Get("Accept"))
	require.Equal(t, "application/json", got.header.Get("Content-Type"))

	_, err = c.Generate(t.Context(), req, func(abi.Chunk) error { return nil })
	require.NoError(t, err)
	require.Equal(t, sent+`"stream":true,`+params+`"stream_options":{},"temperature":0}`, got.body)

	delete(req.Params, "stream_options")
	_, err = c.Generate(t.Context(), req, func(abi.Chunk) error { return nil })
	require.NoError(t, err)
	require.Equal(t, sent+`"stream":true,"stream_options":{"include_usage":true},`+params+`"temperature":0}`, got.body)
	require.Equal(t, "text/event-stream", got.header.Get("Accept"))
	require.Equal(t, "m7", req.Messages[1].ID, "the request is the caller's")
}

func TestParametersThatAreNone(t *testing.T) {
	t.Parallel()
	c, err := New(Options{})
	require.NoError(t, err)
	for _, p := range []abi.Params{
		{"messages": json.RawMessage("[]")}, {"stream": json.RawMessage("true")}, {"seed": json.RawMessage(`1,"model":"x"`)}, {"seed": nil},
	} {
		req := ask()
		req.Params = p
		_, err := c.Generate(t.Context(), req, nil)
		var e *model.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, abi.CodeInvalid, e.Code)
		require.False(t, e.Retryable)
	}
}

func TestReasoningGoesBackByItsName(t *testing.T) {
	t.Parallel()
	var body string
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		answers("application/json", `{"choices":[{"message":{"content":"a","reasoning":"hm"},"finish_reason":"stop"}]}`)(w, r)
	})
	res, err := c.Generate(t.Context(), ask(), nil)
	require.NoError(t, err)
	req := ask()
	req.Messages = append(req.Messages, res.Message)
	_, err = c.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Contains(t, body, `{"role":"assistant","content":"a","reasoning":"hm"}`)
}

func TestStreamOptionsRefused(t *testing.T) {
	t.Parallel()
	var asked, refused atomic.Int32
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "stream_options") {
			refused.Add(1)
			w.WriteHeader(422)
			_, _ = io.WriteString(w, `{"detail":"`+strings.Repeat("x", 1000)+` stream_options: extra fields not permitted"}`)
			return
		}
		_, _ = io.WriteString(w, sse(delta(`{"content":"a"}`), finish("stop")))
	})
	for range 3 {
		_, _, err := stream(t, c)
		require.NoError(t, err)
	}
	require.EqualValues(t, 4, asked.Load(), "remembered after the first time")
	require.EqualValues(t, 1, refused.Load())

	req := ask()
	req.Params = abi.Params{"stream_options": json.RawMessage(`{"include_usage":true}`)}
	_, err := c.Generate(t.Context(), req, func(abi.Chunk) error { return nil })
	require.ErrorContains(t, err, "answered 422", "whoever asks for them gets the error")
}

func TestNotReached(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c, err := New(Options{BaseURL: strings.Replace(s.URL, "http://", "http://u:password@", 1) + "/v1/?token=abcdef", APIKey: key})
	require.NoError(t, err)
	_, err = c.Generate(t.Context(), ask(), nil)
	var e *model.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, abi.CodeUnavailable, e.Code)
	require.True(t, e.Retryable)
	require.Contains(t, e.Message, "cannot connect to "+s.URL+"/v1: connection refused; is it running")
	for _, secret := range []string{key, "password", "abcdef"} {
		require.NotContains(t, fmt.Sprintf("%v %v", err, errors.Unwrap(err)), secret)
	}
}

func TestQueryAndCredentialsOfTheBaseURL(t *testing.T) {
	t.Parallel()
	var path string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.RequestURI()
		w.WriteHeader(400)
		_, _ = io.WriteString(w, "bad token abcdef for hunter2")
	}))
	defer s.Close()
	c, err := New(Options{BaseURL: strings.Replace(s.URL, "http://", "http://u:hunter2@", 1) + "/v1/?token=abcdef"})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Generate(t.Context(), ask(), nil)
	require.ErrorContains(t, err, "bad token *** for ***")
	require.Equal(t, "/v1/chat/completions?token=abcdef", path)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Config.ErrorLog = nil
	defer s.Close()
	c, err := New(Options{BaseURL: s.URL})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Generate(t.Context(), ask(), nil)
	var e *model.Error
	require.ErrorAs(t, err, &e)
	require.False(t, e.Retryable)
	require.Contains(t, e.Message, "securely")
}

// hold answers with what comes first, then waits until the client is gone.
func hold(first string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the client go
		if first != "" {
			_, _ = io.WriteString(w, first)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts  Options
		first string
		want  string
		code  abi.Code
	}{
		"no answer":       {Options{FirstByte: 20 * time.Millisecond}, "", "did not answer within 20ms", abi.CodeUnavailable},
		"no first byte":   {Options{FirstByte: 20 * time.Millisecond}, " ", "", ""},
		"a pause":         {Options{Idle: 20 * time.Millisecond}, sse(delta(`{"content":"a"}`)), "broke off: it paused for more than 20ms", abi.CodeModel},
		"a pause, unsent": {Options{Idle: 20 * time.Millisecond}, "data: {", "broke off: it paused for more than 20ms", abi.CodeModel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.want == "" { // a blank is a sign of life: then it is a pause
				tc.opts.Idle, tc.want, tc.code = 20*time.Millisecond, "paused", abi.CodeModel
			}
			c := serve(t, tc.opts, hold(tc.first))
			_, _, err := stream(t, c)
			var e *model.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Message, tc.want)
			require.Equal(t, tc.code, e.Code)
			require.True(t, e.Retryable)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "that is for the run's own deadline")
		})
	}
}

func TestEndsWithTheContext(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"before": "", "in the middle": sse(delta(`{"content":"a"}`))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if first == "" {
					cancel()
				}
				hold(first)(w, r)
			})
			_, err := c.Generate(ctx, ask(), func(abi.Chunk) error {
				cancel()
				return nil
			})
			require.Equal(t, context.Canceled, err)
		})
	}
}

func TestSinkEndsTheCall(t *testing.T) {
	t.Parallel()
	c := serve(t, Options{}, hold(sse(delta(`{"content":"a"}`))))
	full := errors.New("full")
	_, err := c.Generate(t.Context(), ask(), func(abi.Chunk) error { return full })
	require.Same(t, full, err)
}

// A slow sink is not a pause of the endpoint.
func TestSlowSink(t *testing.T) {
	t.Parallel()
	c := serve(t, Options{Idle: 50 * time.Millisecond}, answers("text/event-stream", sse(delta(`{"content":"a"}`), delta(`{"content":"b"}`), finish("stop"))))
	_, err := c.Generate(t.Context(), ask(), func(abi.Chunk) error {
		<-time.After(120 * time.Millisecond)
		return nil
	})
	require.NoError(t, err)
}

// An endpoint that forgets to close its stream does not hold the answer back
// for long, and its connection can be used again if it closes in time.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(answers("text/event-stream", sse(delta(`{"content":"a"}`), finish("stop"), "[DONE]")))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c, err := New(Options{BaseURL: s.URL})
	require.NoError(t, err)
	defer c.Close()
	for range 5 {
		_, _, err := stream(t, c)
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, connections.Load())

	open := serve(t, Options{}, hold(sse(delta(`{"content":"a"}`), finish("stop"), "[DONE]")))
	res, _, err := stream(t, open)
	require.NoError(t, err)
	require.Equal(t, "a", res.Message.Content.String())
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{
		"no scheme": {BaseURL: "localhost:8080/v1"}, "another scheme": {BaseURL: "ftp://x"}, "no host": {BaseURL: "http://"}, "not a URL": {BaseURL: "http://u:pass word@\x7f"},
		"negative": {Idle: -1}, "header": {Headers: map[string]string{"X": "a\nb"}}, "key": {APIKey: "a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(opts)
			require.ErrorContains(t, err, "openai: ")
			require.NotContains(t, err.Error(), "pass word")
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "NaN": 0, "1e99": 24 * time.Hour, "soon": 0,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {value}}, now), value)
	}
}
