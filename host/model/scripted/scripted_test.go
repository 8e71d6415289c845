package scripted_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
)

func request(text string) *model.Request {
	return &model.Request{Messages: []abi.Message{abi.User(text)}}
}

func collect(chunks *[]abi.Chunk) func(abi.Chunk) error {
	return func(c abi.Chunk) error {
		*chunks = append(*chunks, c)
		return nil
	}
}

func TestRepliesInOrder(t *testing.T) {
	t.Parallel()
	down := &model.Error{Code: abi.CodeUnavailable, Message: "down"}
	m := scripted.New(scripted.Text("one"), scripted.Calls(abi.NewToolCall("c1", "now", "{}")), scripted.Reply{Err: down})

	res, err := m.Generate(t.Context(), request("a"), nil)
	require.NoError(t, err)
	require.Equal(t, "one", res.Message.Content.String())
	require.Equal(t, abi.FinishStop, res.FinishReason)

	res, err = m.Generate(t.Context(), request("b"), nil)
	require.NoError(t, err)
	require.Equal(t, abi.FinishToolCalls, res.FinishReason)

	_, err = m.Generate(t.Context(), request("c"), nil)
	require.Same(t, down, err)

	_, err = m.Generate(t.Context(), request("d"), nil)
	require.ErrorContains(t, err, "the script has 3 replies, and this is request 4")

	seen := m.Requests()
	require.Len(t, seen, 4)
	require.Equal(t, "c", seen[2].Messages[0].Content.String())
}

func TestChunks(t *testing.T) {
	t.Parallel()
	var chunks []abi.Chunk
	reply := scripted.Message(abi.Message{
		Role: abi.RoleAssistant, Content: abi.Text("héllo"), ReasoningContent: "hm",
		ToolCalls: []abi.ToolCall{abi.NewToolCall("c1", "now", `{"a":1}`), abi.NewToolCall("c2", "now", "")},
	})
	reply.Size = 4
	_, err := scripted.New(reply).Generate(t.Context(), request("a"), collect(&chunks))
	require.NoError(t, err)
	require.Equal(t, []abi.Chunk{
		{Kind: abi.ChunkReasoning, Text: "hm"},
		{Kind: abi.ChunkText, Text: "héll"},
		{Kind: abi.ChunkText, Text: "o"},
		{Kind: abi.ChunkToolCall, ID: "c1", Name: "now", Arguments: `{"a"`},
		{Kind: abi.ChunkToolCall, Arguments: `:1}`},
		{Kind: abi.ChunkToolCall, Index: 1, ID: "c2", Name: "now"},
	}, chunks)
}

func TestBreaksOff(t *testing.T) {
	t.Parallel()
	cut := &model.Error{Code: abi.CodeModel, Message: "cut", Retryable: true}
	m := scripted.New(scripted.Reply{Chunks: []abi.Chunk{{Kind: abi.ChunkText, Text: "he"}}, Err: cut}, scripted.Text("x"))
	var chunks []abi.Chunk
	_, err := m.Generate(t.Context(), request("a"), collect(&chunks))
	require.Same(t, cut, err)
	require.Len(t, chunks, 1)

	full := errors.New("full")
	_, err = m.Generate(t.Context(), request("a"), func(abi.Chunk) error { return full })
	require.Same(t, full, err, "the sink's error ends the call")
}

func TestHangAndDelayEndWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(
			scripted.Reply{Hang: true},
			scripted.Reply{Delay: time.Hour},
			scripted.Reply{Response: scripted.Text("late").Response, Delay: time.Second},
		)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := m.Generate(ctx, request("a"), nil)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		begun := time.Now()
		_, err := m.Generate(t.Context(), request("a"), nil)
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

func TestManyGoroutines(t *testing.T) {
	t.Parallel()
	m := scripted.Func(func(_ int, req *model.Request) scripted.Reply {
		return scripted.Text(strings.ToUpper(req.Messages[0].Content.String()))
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				res, err := m.Generate(context.Background(), request("a"), nil)
				if err != nil || res.Message.Content.String() != "A" {
					t.Errorf("got %v, %v", res, err)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, m.Requests(), 400)
}

func TestParse(t *testing.T) {
	t.Parallel()
	replies, err := scripted.Parse([]byte(`
# a comment
{"message": {"content": "hello", "refusal": null}, "size": 2, "usage": {"prompt_tokens": 3}}
{"message": {"tool_calls": [{"id": "c1", "function": {"name": "now", "arguments": "{}"}}]}, "delay_ms": 5}
{"chunks": [{"kind":"text","text":"he"}], "error": {"code":"model","message":"busy","status":503,"retryable":true,"retry_after_ms":20}}
{"hang": true}
`))
	require.NoError(t, err)
	require.Len(t, replies, 4)
	require.Equal(t, abi.RoleAssistant, replies[0].Response.Message.Role)
	require.Equal(t, 2, replies[0].Size)
	require.EqualValues(t, 3, replies[0].Response.Usage.PromptTokens)
	require.Equal(t, abi.FinishToolCalls, replies[1].Response.FinishReason)
	require.Equal(t, 5*time.Millisecond, replies[1].Delay)
	require.Equal(
		t,
		&model.Error{Code: abi.CodeModel, Message: "busy", Status: 503, Retryable: true, RetryAfter: 20 * time.Millisecond},
		replies[2].Err,
	)
	require.True(t, replies[3].Hang)
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"not JSON":    {"\nhello", "line 2: "},
		"unknown key": {`{"text":"a"}`, `line 1: unknown key "text"; want message,`},
		"nothing":     {`{}`, "needs a message, an error or hang"},
		"both":        {`{"message":{},"error":{"code":"model"}}`, "a message or an error"},
		"chunk":       {`{"message":{},"chunks":[{"kind":"x"}]}`, `chunks[0]: unknown kind`},
		"negative":    {`{"hang":true,"size":-1}`, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := scripted.Parse([]byte(tc.in))
			require.ErrorContains(t, err, tc.want)
		})
	}
}
