package messages

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-ant-very-secret"

// An upstream answers with the given text, and records the last request.
type upstream struct {
	contentType, answer string
	status              int
	header, got         http.Header
	path, body          string
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	u.path, u.body = r.URL.RequestURI(), string(b)
	for name, values := range u.header {
		w.Header()[name] = values
	}
	u.got = r.Header
	w.Header().Set("Content-Type", u.contentType)
	if u.status != 0 {
		w.WriteHeader(u.status)
	}
	_, _ = io.WriteString(w, u.answer)
}

func serve(t *testing.T, u *upstream) model.Client {
	t.Helper()
	s := httptest.NewServer(u)
	t.Cleanup(s.Close)
	c, err := New(&model.ClientOptions{BaseURL: s.URL, APIKey: key, Headers: map[string]string{"Anthropic-Beta": "x"}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

const (
	thinking = `{"type":"thinking","thinking":"Let me see.","signature":"c2ln"}`
	redacted = `{"type":"redacted_thinking","data":"ZGF0YQ=="}`
	document = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[` + thinking + `,` + redacted +
		`,{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}},` +
		`{"type":"tool_use","id":"t2","name":"g","input":{}}],` +
		`"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"cache_read_input_tokens":5,"output_tokens":4}}`
)

var events = strings.Join([]string{
	`event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":5,"output_tokens":1}}}`,
	`data: {"type":"ping"}`,
	`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}`,
	`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see."}}`,
	`data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
	`data: {"type":"content_block_stop","index":0}`,
	`data: {"type":"content_block_start","index":1,"content_block":` + redacted + `}`,
	`data: {"type":"content_block_stop","index":1}`,
	`data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
	`data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"I "}}`,
	`data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"look."}}`,
	`data: {"type":"content_block_stop","index":2}`,
	`data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}`,
	`data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`,
	`data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":":1}"}}`,
	`data: {"type":"content_block_stop","index":3}`,
	`data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t2","name":"g","input":{}}}`,
	`data: {"type":"content_block_stop","index":4}`,
	`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}`,
	`data: {"type":"message_stop"}`,
}, "\n\n") + "\n\n"

// TestAnswer checks that a streamed answer equals a whole one, and that the next request contains
// the reasoning of both.
func TestAnswer(t *testing.T) {
	t.Parallel()
	var messages []string
	for _, u := range []*upstream{
		{contentType: "application/json", answer: document},
		{contentType: "text/event-stream; charset=utf-8", answer: events},
	} {
		c := serve(t, u)
		req := &model.Request{Model: "m", Messages: []abi.Message{abi.System("Be kind."), abi.User("Look!")},
			Tools:  []abi.Tool{{Name: "f"}, {Name: "g"}},
			Params: abi.Params{"thinking": abi.JSON(`{"type":"enabled","budget_tokens":1024}`), "stop": abi.JSON(`"END"`)}}
		var chunks []abi.Chunk
		res, err := c.Generate(t.Context(), req, func(c abi.Chunk) error {
			require.NoError(t, contract.CheckChunk(&c))
			chunks = append(chunks, c)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, "/v1/messages", u.path)
		require.Equal(t, key, u.got.Get("X-Api-Key"))
		require.Equal(t, "2023-06-01", u.got.Get("Anthropic-Version"))
		require.Equal(t, "x", u.got.Get("Anthropic-Beta"))
		require.JSONEq(t, `{"model":"m","max_tokens":9216,"stream":true,"stop_sequences":["END"],"system":"Be kind.",
			"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"Look!"}],
			"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"}}]}`, u.body)
		require.Equal(t, abi.FinishToolCalls, res.FinishReason)
		require.Equal(t, &abi.Usage{PromptTokens: 8, CompletionTokens: 4, TotalTokens: 12}, res.Usage)
		require.Equal(t, "Let me see.", res.Message.ReasoningContent)
		require.Equal(t, "I look.", res.Message.Content.String())
		require.NoError(t, contract.CheckMessage(&res.Message))
		var joined chunkjoin.Assembly
		joined.Add(chunks...)
		require.True(t, joined.Equal(res.Message.Chunks()), "%v", chunks)
		b, err := json.Marshal(res.Message)
		require.NoError(t, err)
		messages = append(messages, string(b))

		req.Messages = append(req.Messages, res.Message, abi.ToolMessage("t1", "f", abi.Text("one")),
			abi.ToolMessage("t2", "g", abi.Text("two")))
		_, err = c.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		require.Contains(
			t,
			u.body,
			`{"role":"assistant","content":[`+thinking+`,`+redacted+`,{"type":"text","text":"I look."},`+
				`{"type":"tool_use","id":"t1","name":"f","input":{"a":1}},{"type":"tool_use","id":"t2","name":"g","input":{}}]},`+
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},`+
				`{"type":"tool_result","tool_use_id":"t2","content":"two"}]}`,
		)
		require.NotContains(t, u.body, `"stream"`)
	}
	require.JSONEq(t, messages[0], messages[1])
}

// TestUnsignedThinking checks that thinking without a signature is sent to other endpoints than Anthropic's, which
// rejects it.
func TestUnsignedThinking(t *testing.T) {
	t.Parallel()
	const unsigned = `{"type":"thinking","thinking":"Let me see.","signature":""}`
	var answer abi.Message
	require.NoError(
		t,
		json.Unmarshal([]byte(`{"role":"assistant","content":[`+unsigned+`,{"type":"text","text":"I look."}]}`), &answer),
	)
	for base, sent := range map[string]bool{
		"": false, "https://API.anthropic.com:443/": false,
		"https://messages.example.com": true, "https://api.anthropic.com.example": true,
	} {
		u := &upstream{contentType: "application/json", answer: document}
		c, err := New(&model.ClientOptions{BaseURL: base, APIKey: key, HTTPClient: &http.Client{Transport: served{u}}})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		_, err = c.Generate(
			t.Context(),
			&model.Request{Model: "m", Messages: []abi.Message{abi.User("Look!"), answer, abi.User("And?")}},
			nil,
		)
		require.NoError(t, err)
		require.Equal(t, sent, strings.Contains(u.body, unsigned), u.body)
		require.Contains(t, u.body, "I look.")
	}
}

// served is a transport whose requests a handler answers.
type served struct{ http.Handler }

func (s served) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestFailures checks the errors of the API.
func TestFailures(t *testing.T) {
	t.Parallel()
	overloaded := `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	for name, tc := range map[string]struct {
		u         upstream
		want      string
		retryable bool
		after     time.Duration
	}{
		"invalid": {upstream{status: 400, answer: `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too large"}}`},
			"answered 400 Bad Request: max_tokens: too large", false, 0},
		"no key": {upstream{status: 401, answer: `{"type":"error","error":{"type":"authentication_error","message":"invalid ` + key + `"}}`},
			"invalid ***; check that ANTHROPIC_API_KEY", false, 0},
		"rate": {upstream{status: 429, header: http.Header{"Retry-After": {"7"}},
			answer: `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`}, "429 Too Many Requests: slow", true, 7 * time.Second},
		"overloaded":    {upstream{status: 529, answer: overloaded}, "answered 529: Overloaded", true, 0},
		"in a document": {upstream{answer: overloaded}, "an error: Overloaded", true, 0},
		"in a stream": {upstream{contentType: "text/event-stream", answer: "event: error\ndata: " + overloaded + "\n\n"},
			"an error: Overloaded", true, 0},
		"cut":               {upstream{contentType: "text/event-stream", answer: events[:len(events)/2]}, "", true, 0},
		"without its end":   {upstream{contentType: "text/event-stream", answer: events[:strings.LastIndex(events, "data: {\"type\":\"message_stop")]}, "a stream without its end", true, 0},
		"HTML":              {upstream{answer: "<html><title>Sign in</title>"}, "is the address of a Messages API (--base-url or ANTHROPIC_BASE_URL)", false, 0},
		"half a document":   {upstream{answer: document[:100]}, "JSON that is not whole", true, 0},
		"another API's":     {upstream{answer: `{"choices":[]}`}, "not understood", true, 0},
		"duplicate names":   {upstream{answer: strings.Replace(document, `"name":"f"`, `"name":"f","name":"g"`, 1)}, "not understood", true, 0},
		"two calls, one ID": {upstream{answer: strings.Replace(document, `"t2"`, `"t1"`, 1)}, "two calls have the ID", true, 0},
		"too deep": {upstream{answer: strings.Replace(document, redacted,
			`{"type":"new","x":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}`, 1)}, "", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, &tc.u)
			_, err := c.Generate(t.Context(), &model.Request{Model: "m", Messages: []abi.Message{abi.User("hi")}},
				func(abi.Chunk) error { return nil })
			var failed *model.Error
			require.ErrorAs(t, err, &failed)
			require.Contains(t, failed.Message, tc.want)
			require.NotContains(t, failed.Message, key)
			require.Equal(t, abi.CodeModel, failed.Code)
			require.Equal(t, tc.retryable, failed.Retryable, failed.Message)
			require.Equal(t, tc.after, failed.RetryAfter)
		})
	}
}

// TestNotSent checks that the client rejects a request that the API cannot represent, with an error
// that is not retried.
func TestNotSent(t *testing.T) {
	t.Parallel()
	c, err := New(nil)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Generate(t.Context(), &model.Request{Model: "m", Params: abi.Params{"seed": abi.JSON("1")}}, nil)
	var failed *model.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, abi.CodeInvalid, failed.Code)
	require.Equal(t, `the Messages API does not have the parameter "seed"`, failed.Message)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []model.ClientOptions{
		{BaseURL: "localhost"}, {IdleTimeout: -1}, {APIKey: "a\n"}, {Headers: map[string]string{"X": "\r"}},
	} {
		_, err := New(&o)
		require.ErrorContains(t, err, "messages: ")
	}
}
