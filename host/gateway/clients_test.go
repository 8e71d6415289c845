package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
	"github.com/agent-runner/agent-runner/internal/gateway/gatewaytest"
	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// weatherModel calls two tools, and answers once it has a result. If the client asks for an object,
// the model answers with one. For clients that use a tool for objects, it calls that tool.
func weatherModel(q *gatewaytest.Request) *gatewaytest.Answer {
	const object = `{"name":"[EMAIL_1]"}`
	switch {
	case q.Results > 0:
		return &gatewaytest.Answer{Text: "It is sunny for [EMAIL_1]."}
	case q.Schema:
		return &gatewaytest.Answer{Text: object}
	case !slices.Contains(q.Tools, "get_weather"):
		return &gatewaytest.Answer{Calls: []gatewaytest.Call{{ID: "c0", Name: q.Tools[0], Arguments: object}}}
	}
	return &gatewaytest.Answer{Reasoning: "Both.", Text: "Looking.", Calls: []gatewaytest.Call{
		{ID: "c1", Name: "get_weather", Arguments: object}, {ID: "c2", Name: "delete_file", Arguments: `{"name":"a"}`},
	}}
}

// TestClients runs tasks through clients of the APIs, with three modules: one replaces an address
// with a placeholder and restores it in answers, one changes streamed text, and one denies a tool.
// The tool must not run, and the client must continue.
func TestClients(t *testing.T) {
	npmtest.Folder(t) // skips the test before it starts servers
	up := gatewaytest.NewUpstream(weatherModel)
	defer up.Close()
	runClients(t, up, behind(t, up.URL).URL, "x")
}

// runClients runs the tasks of all clients at an address with a key.
func runClients(t *testing.T, up *gatewaytest.Upstream, url, key string) {
	t.Helper()
	out := npmtest.Script(t, "testdata/clients.mjs", "GATEWAY_URL="+url, "GATEWAY_KEY="+key, "OPENAI_API_KEY="+key)
	require.Equal(t, 28, strings.Count(out, "\n"), out)
	for line := range strings.Lines(out) {
		var got struct {
			Name, Text, Failed string
			Ran                []string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		t.Run(got.Name, func(t *testing.T) {
			require.Empty(t, got.Failed)
			if strings.HasSuffix(got.Name, ", object") {
				require.JSONEq(t, `{"name":"ann@example.com"}`, got.Text)
				return
			}
			require.Contains(t, got.Text, "It is SUNNY for ann@example.com.")
			require.Equal(t, []string{"get_weather ann@example.com"}, got.Ran)
		})
	}
	histories := 0
	for _, q := range up.Requests() {
		require.NotContains(t, q.Body, "ann@example.com")
		require.NotContains(t, q.Body, "ar_", "a key of the platform")
		if q.Results == 0 {
			continue
		}
		histories++
		require.Equal(t, []string{"c1"}, q.Calls, "%s", q.Body)
		require.Contains(t, q.Body, "sunny for [EMAIL_1]")
		require.Contains(t, q.Body, "deny denied the call of delete_file: files stay")
		if q.Protocol == gatewaytest.Messages {
			require.Contains(t, q.Body, gatewaytest.Signature, "reasoning comes back as it was signed")
		}
	}
	require.Equal(t, 22, histories, "each task with tools sends their results")
}

// behind starts a gateway with one route to the upstream for each protocol.
func behind(t *testing.T, upstream string) *httptest.Server {
	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	redact, err := guestbuild.Module(t.Context(), root, "examples/wasm-middlewares/redact")
	require.NoError(t, err)
	entries := fmt.Sprintf("{module: %q, config: {reversible: true}}", redact)
	for _, name := range []string{"loud", "deny"} {
		path, err := filepath.Abs(filepath.Join("testdata", name+".js"))
		require.NoError(t, err)
		entries += fmt.Sprintf(", {module: %q}", path)
	}
	routes := "routes:\n"
	for protocol := range gatewaytest.Paths {
		routes += fmt.Sprintf("- {protocol: %s, upstream: %q, middlewares: [%s]}\n", protocol, upstream, entries)
	}
	f, err := load(t, routes)
	require.NoError(t, err)
	g, err := gateway.New(t.Context(), h, f, nil)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return s
}
