package openaitest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/openai"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/openaitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, replies ...scripted.Reply) (model.Client, *openaitest.Server, *scripted.Model) {
	t.Helper()
	m := scripted.New(replies...)
	s, err := openaitest.New(m)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	c, err := openai.New(&model.ClientOptions{BaseURL: s.URL, APIKey: "key"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, s, m
}

const rich = `{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"x"}]},{"type":"text","text":"héllo"}],` +
	`"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"},"extra_content":{"s":1}},` +
	`{"id":"c2","type":"function","function":{"name":"g","arguments":""}}],"reasoning_content":"hm","refusal":null}`

// TestRoundTrip checks that the client and the server together do not change a conversation.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	var m abi.Message
	require.NoError(t, json.Unmarshal([]byte(rich), &m))
	for name, size := range map[string]int{"whole": 0, "in pieces": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := scripted.Message(m)
			reply.Size, reply.Response.Usage = size, &abi.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3}
			c, _, script := start(t, reply, reply)
			req := &model.Request{
				Model: "m", Messages: []abi.Message{abi.User("hi"), m, abi.ToolMessage("c1", "f", abi.Text("1"))},
				Tools:  []abi.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}},
				Params: abi.Params{"temperature": json.RawMessage("0")},
			}
			var chunks []abi.Chunk
			streamed, err := c.Generate(t.Context(), req, func(c abi.Chunk) error {
				chunks = append(chunks, c)
				return nil
			})
			require.NoError(t, err)
			whole, err := c.Generate(t.Context(), req, nil)
			require.NoError(t, err)
			for _, res := range []*abi.Response{streamed, whole} {
				b, err := json.Marshal(res.Message)
				require.NoError(t, err)
				require.Equal(t, rich, string(b))
				require.Equal(t, abi.FinishToolCalls, res.FinishReason)
				require.Equal(t, reply.Response.Usage, res.Usage)
			}
			if size > 0 {
				require.Equal(t, "hé", chunks[2].Text)
			}
			for _, seen := range script.Requests() {
				delete(seen.Params, "stream")
				require.Equal(t, *req, seen)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	text := []abi.Chunk{{Kind: abi.ChunkText, Text: "he"}}
	busy := &model.Error{
		Code:       abi.CodeModel,
		Message:    "busy",
		Status:     429,
		Retryable:  true,
		RetryAfter: 1500 * time.Millisecond,
	}
	for name, tc := range map[string]struct {
		reply  scripted.Reply
		want   string
		status int
		after  time.Duration
	}{
		"status":       {scripted.Reply{Err: busy}, "429 Too Many Requests: busy", 429, 1500 * time.Millisecond},
		"no status":    {scripted.Reply{Err: &model.Error{Message: "odd"}}, "500 Internal Server Error: odd", 500, 0},
		"cut at once":  {scripted.Reply{Err: openaitest.ErrCut}, "cannot get an answer of", 0, 0},
		"cut":          {scripted.Reply{Chunks: text, Err: openaitest.ErrCut}, "broke off", 0, 0},
		"error event":  {scripted.Reply{Chunks: text, Err: busy}, "answered with an error: busy", 429, 0},
		"raw":          {scripted.Reply{Err: &openaitest.RawError{Status: 503, Header: map[string]string{"Retry-After": "2"}, Body: "<title>down</title>"}}, `an HTML page, "down"`, 503, 2 * time.Second},
		"raw, no more": {scripted.Reply{Err: &openaitest.RawError{Body: "data: [DONE]\n\n"}}, "without a finish_reason", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, _ := start(t, tc.reply)
			_, err := c.Generate(t.Context(), &model.Request{}, func(abi.Chunk) error { return nil })
			var e *model.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Message, tc.want)
			require.Equal(t, tc.status, e.Status)
			require.Equal(t, tc.after, e.RetryAfter)
			require.True(t, e.Retryable)
		})
	}
}

func TestHangEndsWithTheClient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c, _, _ := start(t, scripted.Reply{Chunks: []abi.Chunk{{Kind: abi.ChunkText, Text: "he"}}, Hang: true})
	_, err := c.Generate(ctx, &model.Request{}, func(abi.Chunk) error {
		cancel()
		return nil
	})
	require.Equal(t, context.Canceled, err)
}

func TestWhatItSaw(t *testing.T) {
	t.Parallel()
	c, s, _ := start(t, scripted.Text("a"))
	_, err := c.Generate(t.Context(), &model.Request{Model: "m"}, nil)
	require.NoError(t, err)
	for _, body := range []string{`{`, `{"messages":7}`} {
		resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		_ = resp.Body.Close()
	}
	resp, err := http.Get(s.URL + "/models?x=1")
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	_ = resp.Body.Close()
	require.Contains(t, string(b), "only POST /v1/chat/completions")

	seen := s.Requests()
	require.Len(t, seen, 4)
	require.Equal(t, "Bearer key", seen[0].Header.Get("Authorization"))
	require.JSONEq(t, `{"model":"m","messages":[]}`, string(seen[0].Body))
	require.Equal(t, "/v1/models?x=1", seen[3].Path)
	http.DefaultClient.CloseIdleConnections()
}
