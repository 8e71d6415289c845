package tokens_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// TestPageOfAnotherOrigin runs the page of docs/identity.md in Chromium. At an origin that the tenant
// allows, the page must start a run and read its events. At another origin, it must not.
func TestPageOfAnotherOrigin(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts Chromium")
	}
	t.Parallel()
	input := map[string]any{"folder": npmtest.Folder(t), "chromium": npmtest.Chromium(t)}
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"clerk": servertest.HelloAgent})
	_, err := f.Store.Tenant("acme").PutAgent(t.Context(), "clerk", []byte("{}"), nil)
	require.NoError(t, err)
	token := token(f, api.CreateToken{Subject: "ann", Agents: []string{"clerk"}}).Secret

	text, err := os.ReadFile("../../../docs/identity.md")
	require.NoError(t, err)
	example := regexp.MustCompile("(?s)```js\n(.*?)```").FindSubmatch(text)
	require.NotNil(t, example)
	script := strings.Replace(string(example[1]), "https://agents.example.com", f.URL, 1)
	require.Contains(t, script, f.URL)
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!doctype html><title>-</title><body></body><script type=module>\n%s</script>", script)
	})
	pages.HandleFunc("POST /agent-token", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, token) })
	allowed, other := httptest.NewServer(pages), httptest.NewServer(pages)
	t.Cleanup(allowed.Close)
	t.Cleanup(other.Close)
	f.OK("PUT", "/v1/cors", f.Acme, api.CORS{Origins: []string{allowed.URL}}, nil)

	input["allowed"], input["other"] = allowed.URL, other.URL
	b, err := json.Marshal(input)
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), "node", "testdata/browser.mjs")
	c.Stdin = bytes.NewReader(b)
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	var list struct{ Runs []api.Run }
	f.OK("GET", "/v1/runs", f.Acme, nil, &list)
	require.Len(t, list.Runs, 1, "the other page started none")
	require.Equal(t, "ann", list.Runs[0].Subject)
}
