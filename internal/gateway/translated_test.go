package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
)

// toMessages makes the upstream of the route, whose clients use chat completions, one of the Messages API.
func toMessages(o *Options) {
	u := &o.Routes[0].Upstream
	u.KeyHeader = "X-Api-Key"
	u.Target = &Target{Protocol: messages.Protocol{}, Path: "/v1/messages",
		Header: http.Header{"Anthropic-Version": {"2023-06-01"}}}
}

const plainQuestion = `{"model":"m-1","stream":true,"messages":[{"role":"user","content":"Hi"}]}`

// TestTranslated checks a streamed answer of an upstream of another protocol, with a gate and without modules, and
// the request that the upstream receives.
func TestTranslated(t *testing.T) {
	var path string
	u := newUpstream(t, nil)
	u.answer = func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.RequestURI()
		answers(strings.Join(messagesEvents, "\n\n")+"\n\n")(w, r)
	}
	const question = `{"model":"m-1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]}`
	for name, tc := range map[string]struct {
		gates []*native.Middleware
		want  []string
	}{
		"without modules": {nil, []string{`"name":"rm"`, `"finish_reason":"tool_calls"`, `"prompt_tokens":1,"completion_tokens":2`}},
		"allowed":         {[]*native.Middleware{reader(), gate(abi.DecideAllow, "")}, []string{`"name":"rm"`, `"finish_reason":"tool_calls"`}},
		"denied":          {[]*native.Middleware{gate(abi.DecideDeny, "files stay")}, []string{"denied the call of rm: files stay", `"finish_reason":"stop"`}},
	} {
		g := newGateway(t, u, toMessages, tc.gates...)
		status, got, header := g.post(t, "/v1/chat/completions?beta=true", question,
			"Authorization", "Bearer client-key", "Openai-Organization", "o", "Accept-Encoding", "gzip")
		require.Equal(t, 200, status, name)
		require.Contains(t, header.Get("Content-Type"), "text/event-stream", name)
		for _, want := range append(tc.want, "[DONE]") {
			require.Contains(t, got, want, name)
		}
		if name == "denied" {
			require.NotContains(t, got, "tool_calls", name)
		}
		require.Equal(t, "/v1/messages", path, name)
		sent := u.headers[len(u.headers)-1]
		require.Equal(t, "client-key", sent.Get("X-Api-Key"), name)
		require.Equal(t, "2023-06-01", sent.Get("Anthropic-Version"), name)
		require.Empty(t, sent.Get("Authorization")+sent.Get("Openai-Organization")+sent.Get("Accept-Encoding"), name)
		bodies := u.requests()
		require.JSONEq(t, `{"model":"m-1","max_tokens":8192,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`,
			bodies[len(bodies)-1], name)
	}
}

// TestTranslatedErrors checks that the client gets the upstream's status with an error in its own
// protocol, and an error of the gateway for a request that cannot be translated.
func TestTranslatedErrors(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Secret", "x")
		w.WriteHeader(529)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	})
	for _, gates := range [][]*native.Middleware{nil, {gate(abi.DecideAllow, "")}} {
		g := newGateway(t, u, toMessages, gates...)
		status, got, header := g.ask(t, plainQuestion)
		require.Equal(t, 529, status)
		require.Equal(t, "7", header.Get("Retry-After"))
		require.Empty(t, header.Get("X-Secret"))
		var e struct {
			Error struct{ Message, Type string }
		}
		require.NoError(t, json.Unmarshal([]byte(got), &e))
		require.Equal(t, "Overloaded", e.Error.Message)
		require.Equal(t, "server_error", e.Error.Type)

		n := len(u.requests())
		status, got, _ = g.ask(t, strings.Replace(plainQuestion, `"model"`, `"seed":1,"model"`, 1))
		require.Equal(t, 400, status)
		require.Contains(t, got, `"param":"seed"`)
		require.Len(t, u.requests(), n)
	}
}

// TestTranslatedCut checks that a client can tell a stream that the upstream did not end from a whole one.
func TestTranslatedCut(t *testing.T) {
	u := newUpstream(t, answers(strings.Join(messagesEvents[:5], "\n\n")+"\n\n"))
	g := newGateway(t, u, toMessages, gate(abi.DecideAllow, ""))
	_, got, _ := g.ask(t, plainQuestion)
	require.Contains(t, got, "the upstream's answer was cut")
	require.NotContains(t, got, "tool_calls")
}

// TestTranslatedCount checks the error for counting tokens with an upstream whose protocol cannot count them.
func TestTranslatedCount(t *testing.T) {
	u := newUpstream(t, answers(whole))
	g := newGateway(t, u, func(o *Options) {
		overMessages(o)
		o.Routes[0].Upstream.Target = &Target{Protocol: messages.Protocol{}, Path: "/v1/x"}
	})
	status, got, _ := g.post(t, "/v1/messages/count_tokens", messagesQuestion)
	require.Equal(t, 400, status)
	require.Contains(t, got, "the tokens cannot be counted")
}
