package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
)

// overMessages makes a route one of the Messages API.
func overMessages(o *Options) {
	u := &o.Routes[0].Upstream
	u.Protocol, u.Path = messages.Protocol{}, "/v1/messages"
}

const messagesQuestion = `{ "model":"m-1", "system":"Be kind.", "messages":[{"role":"user","content":"key abc"}], "stream":true }`

// messagesEvents are the parts of a streamed answer with a call.
var messagesEvents = []string{
	`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":1}}}`,
	`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":"c2ln"}}`,
	`data: {"type":"content_block_stop","index":0}`,
	`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"rm","input":{}}}`,
	`data: {"type":"content_block_stop","index":1}`,
	`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`,
	`data: {"type":"message_stop"}`,
}

func TestMessages(t *testing.T) {
	stream := strings.Join(messagesEvents, "\n\n") + "\n\n"
	u := newUpstream(t, answers(stream))

	g := newGateway(t, u, overMessages, reader(), gate(abi.DecideAllow, ""))
	status, got, _ := g.post(t, "/v1/messages?beta=true", messagesQuestion)
	require.Equal(t, 200, status)
	require.Equal(t, stream, got)
	require.Equal(t, messagesQuestion, u.requests()[0])

	g = newGateway(t, u, overMessages, gate(abi.DecideDeny, "files stay"))
	_, got, _ = g.post(t, "/v1/messages", messagesQuestion)
	require.True(t, strings.HasPrefix(got, strings.Join(messagesEvents[:3], "\n\n")), got)
	require.NotContains(t, got, "tool_use")
	require.Contains(t, got, "denied the call of rm: files stay")
	require.Contains(t, got, `"stop_reason":"end_turn"`)
}

// TestMessagesRefused checks that a request that a module stops gets the status 403, after which Claude Code does not
// retry.
func TestMessagesRefused(t *testing.T) {
	u := newUpstream(t, answers(""))
	g := newGateway(t, u, overMessages, &native.Middleware{
		BeforeModel: func(context.Context, *native.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			return &abi.BeforeModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "no secrets"}}}, nil
		},
	})
	status, got, _ := g.post(t, "/v1/messages", messagesQuestion)
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, got, `{"type":"error","error":{"type":"permission_error"`)
	require.Contains(t, got, "no secrets")
	require.Empty(t, u.requests())
}

func TestCountTokens(t *testing.T) {
	u := newUpstream(t, answers(`{"input_tokens":7}`))
	g := newGateway(t, u, overMessages, &native.Middleware{
		BeforeModel: func(_ context.Context, c *native.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			m := c.List(abi.ListRequest).At(1)
			m.Content = abi.Text(strings.ReplaceAll(m.Content.String(), "abc", "[KEY]"))
			change := abi.RequestPatch{
				Messages: abi.ListPatch{Splice: []abi.Splice{{At: 1, Remove: 1, Insert: []abi.Message{m}}}},
				Params:   abi.Params{"temperature": abi.JSON("0")}, // the API would reject it
			}
			return &abi.BeforeModelAnswer{Request: change}, nil
		},
	})
	body := strings.Replace(messagesQuestion, `, "stream":true`, "", 1)
	status, got, _ := g.post(t, "/v1/messages/count_tokens", body)
	require.Equal(t, 200, status)
	require.Equal(t, `{"input_tokens":7}`, got)
	require.Equal(t, []string{strings.Replace(body, "abc", "[KEY]", 1)}, u.requests())
	end := g.events()[len(g.events())-1]
	require.Equal(t, abi.RunStop, end.FinishReason, "counting tokens is no failure")
	require.Nil(t, end.Error)
}

// TestTextAfterThinking checks that text which a module adds comes after signed reasoning, as the API demands.
func TestTextAfterThinking(t *testing.T) {
	added := abi.Part{Type: abi.PartText, Text: "Notice."}
	for name, mw := range map[string]*native.Middleware{
		"on_chunk": {
			OnChunk: func(_ context.Context, _ *native.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
				chunks := append([]abi.Chunk{{Kind: abi.ChunkText, Text: added.Text}}, in.Chunks...)
				return &abi.OnChunkAnswer{Chunks: chunks}, nil
			},
		},
		"after_model": {
			AfterModel: func(_ context.Context, _ *native.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
				res := *in.Response
				res.Message.Content = abi.Parts(append([]abi.Part{added}, res.Message.Content.Parts()...)...)
				return &abi.AfterModelAnswer{Response: &res}, nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answers(strings.Join(messagesEvents, "\n\n")+"\n\n"))
			g := newGateway(t, u, overMessages, mw)
			_, got, _ := g.post(t, "/v1/messages", messagesQuestion)
			before, after, found := strings.Cut(got, "Notice.")
			require.True(t, found, got)
			require.Contains(t, before, `"type":"thinking"`)
			require.Contains(t, after, "tool_use")
		})
	}
}
