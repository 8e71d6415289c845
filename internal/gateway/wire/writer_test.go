package wire_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// read decodes a stream with the codec of its protocol.
func read(t *testing.T, p wire.Protocol, stream []byte) wire.Stream {
	t.Helper()
	s := p.NewStream("m")
	events := wire.NewEventReader(bytes.NewReader(stream), 1<<20, nil)
	for {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			return s
		}
		require.NoError(t, err)
		_, err = s.Decode(event)
		require.NoError(t, err, "%s", event)
	}
}

// TestWriter checks that the codec of each protocol reads a new stream as it was written.
func TestWriter(t *testing.T) {
	t.Parallel()
	calls := []abi.ToolCall{abi.NewToolCall("c1", "f", `{"a":1}`), abi.NewToolCall("c2", "g", "{}")}
	for name, p := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := p.NewWriter("m")
			var b []byte
			b = w.Text(b, abi.ChunkReasoning, "hm")
			b = w.Text(b, abi.ChunkText, "He")
			b = w.Text(b, abi.ChunkText, "llo")
			b = w.Call(b, &calls[0])
			b = w.Call(b, &calls[1])
			b = w.Text(b, abi.ChunkText, " you")
			b = w.End(b, abi.FinishToolCalls, &abi.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7})
			s := read(t, p, b)
			require.True(t, s.Complete())
			require.Nil(t, s.Failure())
			res := s.Response()
			require.Equal(t, "Hello you", res.Message.Content.String())
			require.Equal(t, calls, res.Message.ToolCalls)
			require.Equal(t, abi.FinishToolCalls, res.FinishReason)
			require.Equal(t, &abi.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}, res.Usage)

			empty := read(t, p, p.NewWriter("m").End(nil, abi.FinishStop, nil))
			require.True(t, empty.Complete())
			require.Empty(t, empty.Response().Message.Content.String())
			require.Equal(t, abi.FinishStop, empty.Response().FinishReason)
		})
	}
}

// TestFull checks that answers have the reasoning that the next request must have, streamed or not.
func TestFull(t *testing.T) {
	t.Parallel()
	const item = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAA="}`
	const message = `{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"a"}]}`
	response := `{"id":"r","status":"completed","output":[` + item + `,` + message + `]}`
	whole, err := protocols["responses"].ParseAnswer([]byte(response))
	require.NoError(t, err)
	require.Len(t, whole.Response().Message.Content.Parts(), 1, "modules of the gateway do not see it")
	stream := "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"output\":[]}}\n\n" +
		"data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[]}}\n\n" +
		"data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":" + item + "}\n\n" +
		"data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":" + message + "}\n\n" +
		"data: {\"type\":\"response.completed\",\"response\":" + response + "}\n\n"
	for name, a := range map[string]interface{ Response() *abi.Response }{
		"whole": whole, "stream": read(t, protocols["responses"], []byte(stream)),
	} {
		parts := wire.Full(a).Message.Content.Parts()
		require.Len(t, parts, 2, name)
		b, err := parts[0].MarshalJSON()
		require.NoError(t, err)
		require.JSONEq(t, item, string(b), name)
		require.True(t, wire.IsReasoning(&parts[0]))
		require.Equal(t, "hm", wire.ReasoningText(&parts[0]))
		require.Equal(t, "a", parts[1].Text, name)
	}
}

// TestRefusals checks how streams and whole answers refuse, and that streams have extra fields.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, p := range protocols {
		w := p.NewWriter("m")
		w.SetID("run_1")
		b := w.Text(w.Text(w.Begin(nil), abi.ChunkText, "So far."), wire.KindRefusal, "Not that.")
		w.Extra(abi.Fields{{Name: "more", Value: abi.JSON(`{"x":1}`)}})
		b = w.End(b, abi.FinishFilter, nil)
		s := read(t, p, b)
		require.True(t, s.Complete(), name)
		require.Equal(t, abi.FinishFilter, s.Response().FinishReason, name)
		require.Contains(t, string(b), "Not that.", name)
		require.Contains(t, string(b), `"more":{"x":1}`, name)
		require.Equal(t, name != "messages", bytes.Contains(b, []byte("run_1")), name)

		m := abi.Assistant("So far.")
		m.Unknown = abi.Fields{{Name: wire.KindRefusal, Value: abi.JSON(`"Not that."`)}}
		whole := p.NewAnswer(&abi.Response{Message: m, FinishReason: abi.FinishFilter}, "m")
		answer, err := p.ParseAnswer(whole)
		require.NoError(t, err, "%s", whole)
		require.Equal(t, abi.FinishFilter, answer.Response().FinishReason, name)
		require.Contains(t, string(whole), "Not that.", name)
	}
}

// TestStreamErrors checks that the error of a stream has its reason, where the protocol has one.
func TestStreamErrors(t *testing.T) {
	t.Parallel()
	for name, p := range protocols {
		w := p.NewWriter("m")
		b := string(
			w.Error(w.Begin(nil), &wire.Error{Code: wire.CodeUpstream, Reason: "response_bytes", Message: "too much"}),
		)
		require.Contains(t, b, "too much", name)
		if name == "chat" {
			require.Contains(t, b, `"code":"response_bytes"`)
			require.Contains(t, b, "data: [DONE]\n\n")
		}
	}
}
