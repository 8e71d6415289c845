package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/npmtest"
)

// TestChatClients runs agents of several npm clients through three modules: one replaces an address in
// requests and puts it back in answers, one denies the calls of a tool, one only reads. The tool must
// not run, the other one must, and the upstream must get a history that it accepts.
func TestChatClients(t *testing.T) {
	u := newUpstream(t, nil)
	u.answer = agentModel(u)
	g := newGateway(t, u, nil, placeholders("bob@example.org", "[1]"), denyRemove(), reader())
	removed := filepath.Join(t.TempDir(), "removed")
	out := npmtest.Script(t, "testdata/chat.mjs", "CHAT_URL="+g.at+"/v1", "REMOVED="+removed)

	runs := 0
	for line := range strings.Lines(out) {
		var got struct {
			Client string
			Reads  []string
			Text   string
			Object struct{ Owner string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		runs++
		if strings.HasSuffix(got.Client, "object") {
			require.Equal(t, "bob@example.org", got.Object.Owner, line)
			continue
		}
		require.Equal(t, []string{"a.txt"}, got.Reads, line)
		require.Equal(t, "Nothing of bob@example.org is left to do.", got.Text, line)
	}
	require.Equal(t, 8, runs)
	_, err := os.Stat(removed)
	require.ErrorIs(t, err, os.ErrNotExist, "the denied tool must not run")

	results := 0
	for _, body := range u.requests() {
		require.NotContains(t, body, "bob@example.org")
		if strings.Contains(body, `"tool_call_id"`) {
			results++
			require.Contains(t, body, "The owner is [1].")
			require.Contains(t, body, "[m2 denied the call of remove: files stay]")
			require.NotContains(t, body, `"call_2"`)
		}
	}
	require.Equal(t, 6, results, "each agent sends the result of its call")
}

// denyRemove is a middleware that denies the calls of the tool remove.
func denyRemove() *native.Middleware {
	return &native.Middleware{
		GateTool: func(_ context.Context, _ *native.Call, in *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			if in.Call.Name == "remove" {
				return &abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "files stay"}, nil
			}
			return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
		},
	}
}

// placeholders is a middleware that replaces a text in requests, and puts it back in answers.
func placeholders(text, placeholder string) *native.Middleware {
	restore := func(s string) string { return strings.ReplaceAll(s, placeholder, text) }
	return &native.Middleware{
		BeforeModel: func(_ context.Context, c *native.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			list := c.List(abi.ListRequest)
			var messages []abi.Message
			for i := range list.Len() {
				messages = append(messages, inText(list.At(i), func(s string) string {
					return strings.ReplaceAll(s, text, placeholder)
				}))
			}
			change := abi.ListPatch{Splice: []abi.Splice{{Remove: len(messages), Insert: messages}}}
			return &abi.BeforeModelAnswer{Request: abi.RequestPatch{Messages: change}}, nil
		},
		OnChunk: func(_ context.Context, _ *native.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			out := append([]abi.Chunk{}, in.Chunks...)
			for i := range out {
				out[i].Text, out[i].Arguments = restore(out[i].Text), restore(out[i].Arguments)
			}
			return &abi.OnChunkAnswer{Chunks: out}, nil
		},
		AfterModel: func(_ context.Context, _ *native.Call, in *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			if in.Response == nil {
				return &abi.AfterModelAnswer{}, nil
			}
			res := *in.Response
			res.Message = inText(res.Message, restore)
			return &abi.AfterModelAnswer{Response: &res}, nil
		},
	}
}

// inText returns a message whose text and arguments were replaced.
func inText(m abi.Message, replace func(string) string) abi.Message {
	switch {
	case m.Content.IsParts():
		parts := slices.Clone(m.Content.Parts())
		for i := range parts {
			if parts[i].Type == abi.PartText {
				parts[i].Text = replace(parts[i].Text)
			}
		}
		m.Content = abi.Parts(parts...)
	case !m.Content.IsNull():
		m.Content = abi.Text(replace(m.Content.String()))
	}
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		m.ToolCalls[i].Function.Arguments = replace(m.ToolCalls[i].Function.Arguments)
	}
	return m
}

// agentModel returns a model that calls both tools, answers their results, and answers in JSON if
// the client asks for it. Like the API, it rejects
// a history with calls that have no results, or results that have no calls.
func agentModel(u *upstream) func(w http.ResponseWriter, r *http.Request) {
	const (
		head  = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,`
		calls = `[{"index":0,"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}},` +
			`{"index":1,"id":"call_2","type":"function","function":{"name":"remove","arguments":"{\"path\":\"a.txt\"}"}}]`
	)
	return func(w http.ResponseWriter, r *http.Request) {
		requests := u.requests()
		var q struct {
			Stream   bool
			Format   json.RawMessage `json:"response_format"`
			Messages []struct {
				Role       string
				ToolCalls  []struct{ ID string } `json:"tool_calls"`
				ToolCallID string                `json:"tool_call_id"`
			}
		}
		_ = json.Unmarshal([]byte(requests[len(requests)-1]), &q)
		open := map[string]bool{}
		done := false
		for _, m := range q.Messages {
			for _, c := range m.ToolCalls {
				open[c.ID] = true
			}
			if m.Role == abi.RoleTool {
				done = open[m.ToolCallID]
				if delete(open, m.ToolCallID); !done {
					break
				}
			}
		}
		text, more, finish := "The files of [1].", `,"tool_calls":`+calls, "tool_calls"
		if done {
			text, more, finish = "Nothing of [1] is left to do.", "", "stop"
		}
		if q.Format != nil {
			text, more, finish = `{\"owner\":\"[1]\"}`, "", "stop"
		}
		switch {
		case len(open) > 0:
			http.Error(w, `{"error":{"message":"calls without results"}}`, http.StatusBadRequest)
		case q.Stream:
			first, second := text[:10], text[10:]
			events := `data: ` + head + `"delta":{"role":"assistant","content":"` + first + `"},"finish_reason":null}]}` + "\n\n" +
				`data: ` + head + `"delta":{"content":"` + second + `"` + more + `},"finish_reason":"` + finish + `"}]}` + "\n\n" +
				"data: [DONE]\n\n"
			answers(strings.ReplaceAll(events, "chat.completion", "chat.completion.chunk"))(w, r)
		default:
			answers(head+`"message":{"role":"assistant","content":"`+text+`"`+more+`},"finish_reason":"`+finish+`"}]}`)(w, r)
		}
	}
}
