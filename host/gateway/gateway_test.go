package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
)

const noTools = "../../testdata/modules/no-tools.wasm"

// answers holds an answer with a call of the tool rm for each protocol, by path.
var answers = map[string]string{
	"/v1/chat/completions": `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1",` +
		`"type":"function","function":{"name":"rm","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
	"/v1/responses": `{"id":"r","object":"response","status":"completed","output":[{"type":"function_call","id":"f",` +
		`"call_id":"c1","name":"rm","arguments":"{}","status":"completed"}]}`,
	"/v1/messages": `{"id":"m","type":"message","role":"assistant","content":[{"type":"tool_use","id":"c1","name":"rm",` +
		`"input":{}}],"stop_reason":"tool_use"}`,
}

func newUpstream() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answers[r.URL.Path])
	}))
}

func load(t *testing.T, text string) (*gateway.File, error) {
	module, err := filepath.Abs(noTools)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "MODULE", module)), 0o600))
	return gateway.LoadFile(path)
}

func ask(t *testing.T, g http.Handler, path string) string {
	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	if path == "/v1/responses" {
		body = `{"model":"m","input":"hi"}`
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body)))
	return w.Body.String()
}

func TestGateway(t *testing.T) {
	u := newUpstream()
	defer u.Close()
	h, err := host.New(t.Context(), nil)
	require.NoError(t, err)
	defer h.Close(context.Background())
	guarded := ""
	for _, protocol := range []string{"chat", "responses", "messages"} {
		guarded += fmt.Sprintf("- {protocol: %s, upstream: %q, middlewares: [{module: MODULE}]}\n", protocol, u.URL)
	}
	f, err := load(t, "routes:\n"+guarded)
	require.NoError(t, err)
	g, err := gateway.New(t.Context(), h, f, nil)
	require.NoError(t, err)
	defer g.Close()
	for path, answer := range answers {
		got := ask(t, g, path)
		require.Contains(t, got, "no-tools denied the call of rm", path)
		require.NotContains(t, got, "c1", path)
		require.Contains(t, answer, "c1")
	}

	f, err = load(t, "routes: [{protocol: chat, upstream: '"+u.URL+"'}]")
	require.NoError(t, err)
	require.NoError(t, g.Replace(t.Context(), f))
	require.Equal(t, answers["/v1/chat/completions"], ask(t, g, "/v1/chat/completions"))
	require.Contains(t, ask(t, g, "/v1/messages"), "the gateway has no POST /v1/messages")

	f, err = load(t, "routes: [{protocol: chat, api_key_env: NOT_SET}]")
	require.NoError(t, err)
	require.ErrorContains(
		t,
		g.Replace(t.Context(), f),
		"the environment variable NOT_SET, the key of the upstream, is not set",
	)
	require.Equal(
		t,
		answers["/v1/chat/completions"],
		ask(t, g, "/v1/chat/completions"),
		"a file that does not load changes nothing",
	)

	g.Close()
	require.Contains(t, ask(t, g, "/v1/chat/completions"), "the gateway is closed")
}

func Example() {
	u := newUpstream()
	defer u.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	module, _ := filepath.Abs(noTools)
	path := filepath.Join(dir, "gateway.yaml")
	text := fmt.Sprintf("routes: [{protocol: messages, upstream: %q, middlewares: [{module: %q}]}]", u.URL, module)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	h, err := host.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)
	f, err := gateway.LoadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	g, err := gateway.New(ctx, h, f, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	s := httptest.NewServer(g)
	defer s.Close()

	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Delete it."}]}`
	res, err := http.Post(s.URL+"/v1/messages", "application/json", strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	fmt.Println(strings.Contains(string(answer), "denied the call of rm"))
	// Output: true
}
