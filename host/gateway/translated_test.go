package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/gateway"
	"github.com/agent-runner/agent-runner/internal/gateway/gatewaytest"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// TestTranslatedClients runs a task through the vendors' clients in front of an upstream of another
// protocol. With a module that denies a tool, the tool must not run. Without modules, both tools must
// run. The upstream rejects a history in which a call has no result.
func TestTranslatedClients(t *testing.T) {
	npmtest.Folder(t) // skips the test before it starts servers
	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	defer h.Close(t.Context())
	deny, err := filepath.Abs(filepath.Join("testdata", "deny.js"))
	require.NoError(t, err)
	u := gatewaytest.NewUpstream(func(q *gatewaytest.Request) *gatewaytest.Answer {
		if q.Results > 0 {
			return &gatewaytest.Answer{Text: "It is sunny."}
		}
		return &gatewaytest.Answer{Text: "Looking.", Calls: []gatewaytest.Call{
			{ID: "c1", Name: "get_weather", Arguments: `{"name":"x"}`},
			{ID: "c2", Name: "delete_file", Arguments: `{"name":"a"}`},
		}}
	})
	defer u.Close()
	pairs := map[string]map[string]string{ // the protocols of upstreams, by those of clients
		"first":  {"chat": "messages", "responses": "messages", "messages": "chat"},
		"second": {"chat": "responses", "responses": "chat", "messages": "responses"},
	}
	settings := map[string]string{}
	for name, upstreams := range pairs {
		for _, modules := range []string{"", fmt.Sprintf("{module: %q}", deny)} {
			text := "routes:\n"
			for client, upstream := range upstreams {
				text += fmt.Sprintf("- {protocol: %s, upstream_protocol: %s, upstream: %q, middlewares: [%s]}\n",
					client, upstream, u.URL, modules)
			}
			f, err := load(t, text)
			require.NoError(t, err)
			g, err := gateway.New(t.Context(), h, f, nil)
			require.NoError(t, err)
			defer g.Close()
			s := httptest.NewServer(g)
			defer s.Close()
			settings[strings.TrimSpace(name+" "+map[bool]string{true: "denied"}[modules != ""])] = s.URL
		}
	}
	addresses, err := json.Marshal(settings)
	require.NoError(t, err)

	out := npmtest.Script(t, "testdata/translated.mjs", "GATEWAYS="+string(addresses))
	tasks := 0
	for line := range strings.Lines(out) {
		var got struct {
			Setting, Client, Text, Failed string
			Stream                        bool
			Tokens                        int
			Ran                           []string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		tasks++
		require.Empty(t, got.Failed, line)
		ran := []string{"get_weather", "delete_file"}
		if strings.HasSuffix(got.Setting, "denied") {
			ran = ran[:1]
		}
		require.ElementsMatch(t, ran, got.Ran, line)
		require.Equal(t, "It is sunny.", got.Text, line)
		if pairs[strings.Fields(got.Setting)[0]][got.Client] != "chat" ||
			!got.Stream { // this upstream's streams of chat have no usage
			require.Equal(t, 4, got.Tokens, line)
		}
	}
	require.Equal(t, 24, tasks)
}
