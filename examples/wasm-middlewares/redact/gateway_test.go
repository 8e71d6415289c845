//go:build !wasip1

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
)

// TestGateway checks that the upstream of a gateway receives placeholders, and that the client
// receives their values in streamed text and in the arguments of calls. Calls that send data out keep
// the placeholders.
func TestGateway(t *testing.T) {
	t.Parallel()
	const arguments = `{\"text\":\"[EMAIL_1] [EMAIL_2]\"}`
	request := ""
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request = string(body)
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(delta, reason string) {
			_, _ = fmt.Fprintf(
				w,
				`data: {"id":"c","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}`+"\n\n",
				delta,
				reason,
			)
		}
		chunk(`"role":"assistant","content":"for [EM"`, "null")
		chunk(`"content":"AIL_2]"`, "null")
		for i, tool := range []string{"write", "shell"} {
			chunk(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":"c%d","type":"function","function":{"name":%q,"arguments":"%s"}}]`,
				i, i, tool, arguments[:20]), "null")
			chunk(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":"%s"}}]`, i, arguments[20:]), "null")
		}
		chunk("", `"tool_calls"`)
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer upstream.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	module := write("redact.wasm", string(guestbuild.Build(t, "examples/wasm-middlewares/redact")))
	file, err := gateway.LoadFile(write("gateway.yaml", fmt.Sprintf(
		"routes: [{protocol: chat, upstream: %q, middlewares: [{module: %q, config: {reversible: true}}]}]",
		upstream.URL,
		module,
	)))
	require.NoError(t, err)
	h, err := host.New(t.Context(), nil)
	require.NoError(t, err)
	defer h.Close(context.Background())
	g, err := gateway.New(t.Context(), h, file, nil)
	require.NoError(t, err)
	defer g.Close()

	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/chat/completions", strings.NewReader(
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"amy@example.org"},{"role":"assistant","content":null,`+
			`"tool_calls":[{"id":"c","type":"function","function":{"name":"write",`+
			`"arguments":"{\"b\":1,\"a\":\"amy@example.org\"}"}}]},`+
			`{"role":"tool","tool_call_id":"c","content":"bob@example.com"}]}`,
	)))
	answer := w.Body.String()
	require.NotContains(t, request, "@")
	require.Contains(t, request, `"content":"[EMAIL_1]"`)
	require.Contains(t, request, `{\"b\":1,\"a\":\"[EMAIL_1]\"}`)
	require.Contains(t, request, `"content":"[EMAIL_2]"`)
	require.Contains(t, answer, `"content":"bob@example.com"`)
	require.Contains(t, answer, `{\"text\":\"amy@example.org bob@example.com\"}`, "of write")
	require.Contains(t, answer, `{\"text\":\"amy@example.org [EMAIL_2]\"}`, "of shell")
	require.NotContains(t, answer, "[EM\"")
}
