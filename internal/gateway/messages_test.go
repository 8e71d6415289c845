package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/npmtest"
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

// TestMessagesRefused checks the status that Claude Code obeys.
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
			change := abi.ListPatch{Splice: []abi.Splice{{At: 1, Remove: 1, Insert: []abi.Message{m}}}}
			return &abi.BeforeModelAnswer{Request: abi.RequestPatch{Messages: change}}, nil
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

// TestMessagesClients runs agents of several npm clients through three modules, as TestChatClients. The
// agents get signed reasoning, which the upstream must get back.
func TestMessagesClients(t *testing.T) {
	u := newUpstream(t, nil)
	u.answer = messagesModel(u)
	g := newGateway(t, u, overMessages, placeholders("bob@example.org", "[1]"), denyRemove(), reader())
	removed := filepath.Join(t.TempDir(), "removed")
	out := npmtest.Script(t, "testdata/messages.mjs", "MESSAGES_URL="+g.at, "REMOVED="+removed)
	require.Equal(t, 8, strings.Count(out, "\n"), out)
	for line := range strings.Lines(out) {
		var got struct {
			Client string
			Reads  []string
			Text   string
			Object struct{ Owner string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		if strings.HasSuffix(got.Client, "object") {
			require.Equal(t, "bob@example.org", got.Object.Owner, line)
			continue
		}
		require.Equal(t, []string{"a.txt of bob@example.org"}, got.Reads, line)
		require.Equal(t, "Nothing of bob@example.org is left to do.", got.Text, line)
	}
	require.NoFileExists(t, removed, "the denied tool must not run")

	results := 0
	for _, body := range u.requests() {
		require.NotContains(t, body, "bob@example.org")
		if strings.Contains(body, `"tool_result"`) {
			results++
			require.Contains(t, body, "The owner is [1].")
			require.Contains(t, body, "[m2 denied the call of remove: files stay]")
			require.NotContains(t, body, `"toolu_2"`)
			require.Contains(t, body, `"signature":"c2ln"`)
		}
	}
	require.Equal(t, 6, results, "each agent sends the result of its call")
}

// messagesModel returns a model that calls both tools, answers their results, and calls a tool for an
// object if the client wants one. Like the API, it rejects calls without results.
func messagesModel(u *upstream) func(w http.ResponseWriter, r *http.Request) {
	const thinking = `{"type":"thinking","thinking":"Look.","signature":"c2ln"}`
	call := func(id, name, input string) string {
		return `{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":` + input + "}"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		requests := u.requests()
		body := requests[len(requests)-1]
		var q struct {
			Stream bool
			Tools  []struct{ Name string }
		}
		_ = json.Unmarshal([]byte(body), &q)
		reason := "tool_use"
		blocks := []string{
			thinking, `{"type":"text","text":"The files of [1]."}`,
			call("toolu_1", "read", `{"path":"a.txt of [1]"}`), call("toolu_2", "remove", `{"path":"a.txt"}`),
		}
		switch {
		case strings.Count(body, `"tool_use"`) != strings.Count(body, `"tool_result"`):
			http.Error(
				w,
				`{"type":"error","error":{"type":"invalid_request_error","message":"calls without results"}}`,
				http.StatusBadRequest,
			)
			return
		case strings.Contains(body, `"tool_result"`):
			blocks, reason = []string{`{"type":"text","text":"Nothing of [1] is left to do."}`}, "end_turn"
		case len(q.Tools) == 1:
			blocks = []string{call("toolu_1", q.Tools[0].Name, `{"owner":"[1]"}`)}
		case len(q.Tools) == 0:
			blocks, reason = []string{`{"type":"text","text":"{\"owner\":\"[1]\"}"}`}, "end_turn"
		}
		head := `{"id":"msg_1","type":"message","role":"assistant","model":"m-1","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2},`
		if !q.Stream {
			answers(head+`"content":[`+strings.Join(blocks, ",")+`],"stop_reason":"`+reason+`"}`)(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, messagesStream(head, blocks, reason))
	}
}

// messagesStream returns an answer as a stream.
func messagesStream(head string, blocks []string, reason string) string {
	var out strings.Builder
	event := func(kind, fields string) {
		fmt.Fprintf(&out, "event: %[1]s\ndata: {\"type\":%[1]q%[2]s}\n\n", kind, fields)
	}
	event("message_start", `,"message":`+head+`"content":[],"stop_reason":null}`)
	for i, text := range blocks {
		var b struct {
			Type, Text, Thinking, Signature, ID, Name string
			Input                                     json.RawMessage
		}
		_ = json.Unmarshal([]byte(text), &b)
		start, deltas := `{"type":"text","text":""}`, []string{fmt.Sprintf(`"text_delta","text":%q`, b.Text)}
		switch b.Type {
		case "thinking":
			start = `{"type":"thinking","thinking":"","signature":""}`
			deltas = []string{
				fmt.Sprintf(`"thinking_delta","thinking":%q`, b.Thinking),
				fmt.Sprintf(`"signature_delta","signature":%q`, b.Signature),
			}
		case "tool_use":
			start = fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, b.ID, b.Name)
			deltas = []string{fmt.Sprintf(`"input_json_delta","partial_json":%q`, b.Input)}
		}
		event("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, i, start))
		for _, delta := range deltas {
			event("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":%s}`, i, delta))
		}
		event("content_block_stop", fmt.Sprintf(`,"index":%d`, i))
	}
	event("message_delta", `,"delta":{"stop_reason":"`+reason+`","stop_sequence":null},"usage":{"output_tokens":2}`)
	event("message_stop", "")
	return out.String()
}
