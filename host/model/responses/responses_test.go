package responses

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-very-secret"

// An upstream answers with the given text, and records the requests.
type upstream struct {
	contentType, answer string
	status              int
	rejects             string // rejects requests that contain this text
	got                 http.Header
	path                string
	bodies              []string
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	u.path, u.got, u.bodies = r.URL.RequestURI(), r.Header, append(u.bodies, string(b))
	if u.rejects != "" && strings.Contains(string(b), u.rejects) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(
			w,
			`{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include"}}`,
		)
		return
	}
	w.Header().Set("Content-Type", u.contentType)
	if u.status != 0 {
		w.WriteHeader(u.status)
	}
	_, _ = io.WriteString(w, u.answer)
}

func (u *upstream) body() string { return u.bodies[len(u.bodies)-1] }

func serve(t *testing.T, u *upstream) model.Client {
	t.Helper()
	s := httptest.NewServer(u)
	t.Cleanup(s.Close)
	c, err := New(&model.ClientOptions{BaseURL: s.URL + "/v1", APIKey: key})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

const (
	reasoning = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Let me see."}],"encrypted_content":"gAA="}`
	message   = `{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I look.","annotations":[]}]}`
	call1     = `{"id":"fc_1","type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}","status":"completed"}`
	call2     = `{"id":"fc_2","type":"function_call","call_id":"c2","name":"g","arguments":"{}","status":"completed"}`
	document  = `{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[` +
		reasoning + `,` + message + `,` + call1 + `,` + call2 + `],` +
		`"usage":{"input_tokens":8,"input_tokens_details":{"cached_tokens":5},"output_tokens":4,"total_tokens":12}}`
)

var events = strings.Join([]string{
	`event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}`,
	`: keep-alive`,
	`data: {"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}`,
	`data: {"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}`,
	`data: {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Let me "}`,
	`data: {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"see."}`,
	`data: {"type":"response.output_item.done","output_index":0,"item":` + reasoning + `}`,
	`data: {"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]}}`,
	`data: {"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":""}}`,
	`data: {"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"I look."}`,
	`data: {"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"I look."}`,
	`data: {"type":"response.content_part.done","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"I look."}}`,
	`data: {"type":"response.output_item.done","output_index":1,"item":` + message + `}`,
	`data: {"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"c1","name":"f","arguments":""}}`,
	`data: {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"a\""}`,
	`data: {"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":":1}"}`,
	`data: {"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"a\":1}"}`,
	`data: {"type":"response.output_item.done","output_index":2,"item":` + call1 + `}`,
	`data: {"type":"response.output_item.done","output_index":3,"item":` + call2 + `}`,
	`data: {"type":"response.completed","response":` + document + `}`,
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
			Tools:  []abi.Tool{{Name: "f"}},
			Params: abi.Params{"max_tokens": abi.JSON(`9`), "reasoning_effort": abi.JSON(`"low"`)}}
		var chunks []abi.Chunk
		res, err := c.Generate(t.Context(), req, func(c abi.Chunk) error {
			require.NoError(t, contract.CheckChunk(&c))
			chunks = append(chunks, c)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, "/v1/responses", u.path)
		require.Equal(t, "Bearer "+key, u.got.Get("Authorization"))
		require.JSONEq(t, `{"model":"m","max_output_tokens":9,"stream":true,"store":false,"instructions":"Be kind.",
			"include":["reasoning.encrypted_content"],"reasoning":{"effort":"low"},
			"input":[{"type":"message","role":"user","content":"Look!"}],
			"tools":[{"type":"function","name":"f","description":"","parameters":{"type":"object","properties":{}},"strict":false}]}`, u.body())
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

		req.Messages = append(req.Messages, res.Message, abi.ToolMessage("c1", "f", abi.Text("one")),
			abi.ToolMessage("c2", "g", abi.Text("two")))
		_, err = c.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		require.Contains(t, u.body(), `,`+reasoning+`,`)
		require.Contains(
			t,
			u.body(),
			`},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},`+
				`{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},`+
				`{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},`+
				`{"type":"function_call_output","call_id":"c1","output":"one"},{"type":"function_call_output","call_id":"c2","output":"two"}]`,
		)
	}
	require.JSONEq(t, messages[0], messages[1])
}

// TestModelsWithoutReasoning checks that the client asks a model for encrypted reasoning only until
// the model rejects that.
func TestModelsWithoutReasoning(t *testing.T) {
	t.Parallel()
	u := &upstream{contentType: "application/json", answer: document, rejects: "encrypted_content"}
	c := serve(t, u)
	for range 2 {
		_, err := c.Generate(t.Context(), &model.Request{Model: "m", Messages: []abi.Message{abi.User("a")}}, nil)
		require.NoError(t, err)
	}
	require.Len(t, u.bodies, 3)
	_, err := c.Generate(t.Context(), &model.Request{Model: "other", Messages: []abi.Message{abi.User("a")}}, nil)
	require.NoError(t, err)
	require.Len(t, u.bodies, 5, "another model may have reasoning")
	_, err = c.Generate(t.Context(), &model.Request{Model: "m", Messages: []abi.Message{abi.User("a")},
		Params: abi.Params{"include": abi.JSON(`["reasoning.encrypted_content"]`)}}, nil)
	require.ErrorContains(t, err, "Encrypted content is not supported")
}

// TestUnreadableReasoning checks that the client does not send references to reasoning that the
// endpoint has not stored.
func TestUnreadableReasoning(t *testing.T) {
	t.Parallel()
	u := &upstream{contentType: "application/json", answer: document}
	c := serve(t, u)
	part := abi.Part{Type: "reasoning", Unknown: abi.Fields{
		{Name: "id", Value: abi.JSON(`"rs_1"`)}, {Name: "summary", Value: abi.JSON("[]")},
	}}
	m := abi.Message{Role: abi.RoleAssistant, Content: abi.Parts(part, abi.Part{Type: abi.PartText, Text: "b"})}
	req := &model.Request{Model: "m", Messages: []abi.Message{abi.User("a"), m}}
	_, err := c.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.NotContains(t, u.body(), "rs_1")
	req.Params = abi.Params{"store": abi.JSON("true")}
	_, err = c.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Contains(t, u.body(), "rs_1")
	require.NotContains(t, u.body(), `"include"`)
}

// TestFailures checks the errors of the API.
func TestFailures(t *testing.T) {
	t.Parallel()
	failed := `{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"The model broke"},"output":[]}`
	for name, tc := range map[string]struct {
		u         upstream
		want      string
		retryable bool
	}{
		"invalid":    {upstream{status: 400, answer: `{"error":{"message":"no such tool","type":"invalid_request_error"}}`}, "answered 400 Bad Request: no such tool", false},
		"no key":     {upstream{status: 401, answer: `{"error":{"message":"bad ` + key + `"}}`}, "bad ***; check that OPENAI_API_KEY", false},
		"quota":      {upstream{status: 429, answer: `{"error":{"message":"used up","type":"insufficient_quota"}}`}, "quota is used up", false},
		"a document": {upstream{answer: failed}, "an error: The model broke", true},
		"a stream": {upstream{contentType: "text/event-stream", answer: "data: {\"type\":\"response.failed\",\"response\":" + failed + "}\n\n"},
			"an error: The model broke", true},
		"an event": {upstream{contentType: "text/event-stream",
			answer: "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"slow down\"}\n\n"}, "an error: slow down", true},
		"cut":               {upstream{contentType: "text/event-stream", answer: events[:strings.Index(events, "data: {\"type\":\"response.completed")]}, "without its end", true},
		"events disagree":   {upstream{contentType: "text/event-stream", answer: strings.Replace(events, `"text":"I look."`, `"text":"You look."`, 1)}, "other text", true},
		"two calls, one ID": {upstream{answer: strings.Replace(document, `"c2"`, `"c1"`, 1)}, "two tool calls", true},
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
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := New(&model.ClientOptions{BaseURL: "localhost"})
	require.ErrorContains(t, err, "responses: the base URL is not an address like https://api.openai.com/v1")
}
