package gateway_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// clientModel calls two tools of the client, and answers once it has the results. If the request
// asks for a format, the answer is a JSON object.
func clientModel(_ int, req *model.Request) scripted.Reply {
	last := req.Messages[len(req.Messages)-1]
	switch {
	case strings.Contains(string(req.Params["response_format"]), "json_schema"):
		wrong := func(m abi.Message) bool { return strings.Contains(m.Content.String(), "Answer wrong.") }
		if slices.ContainsFunc(req.Messages, wrong) {
			return scripted.Text(`{"city": 7}`)
		}
		return scripted.Text(`{"city": "Paris"}`)
	case last.Role == abi.RoleTool:
		return scripted.Text("It is sunny.")
	}
	return scripted.Message(abi.Message{
		Role: abi.RoleAssistant, Content: abi.Text("Looking."),
		ToolCalls: []abi.ToolCall{
			abi.NewToolCall("c1", "get_weather", `{"name":"x"}`),
			abi.NewToolCall("c2", "delete_file", `{"name":"a"}`),
		},
	})
}

// TestModelClients runs a task through each client of the model APIs, with an agent whose module
// denies a tool. The tests of the gateway use the same clients and task. The tool must not run, and
// the client must continue.
func TestModelClients(t *testing.T) {
	t.Parallel()
	npmtest.Folder(t) // skips the test before it starts a server
	f := clientPlatform(t)
	out := npmtest.Script(t, "../../../host/gateway/testdata/clients.mjs",
		"GATEWAY_URL="+f.URL, "GATEWAY_KEY="+f.Acme, "OPENAI_API_KEY=x", "WITHOUT_OBJECTS=1")
	tasks := 0
	for line := range strings.Lines(out) {
		var got struct {
			Name, Text, Failed string
			Ran                []string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		tasks++
		t.Run(got.Name, func(t *testing.T) {
			require.Empty(t, got.Failed)
			require.Equal(t, []string{"get_weather x"}, got.Ran)
			require.Contains(t, got.Text, "It is sunny.")
		})
	}
	require.Equal(t, 22, tasks)
}

// clientPlatform returns a platform with the agent m of the tenant acme.
func clientPlatform(t *testing.T) *servertest.Fixture {
	t.Helper()
	f := servertest.New(t)
	f.SetModel(scripted.Func(clientModel))
	deny, err := os.ReadFile("../../../host/gateway/testdata/deny.js")
	require.NoError(t, err)
	f.Upload(f.Acme, "deny", string(deny))
	require.Equal(t, 200, f.Apply(f.Acme, "m", "model: {name: small}\nmiddlewares: [{module: deny}]\n").Status)
	return f
}

// TestModelFormats checks structured output with each client that supports it.
func TestModelFormats(t *testing.T) {
	t.Parallel()
	npmtest.Folder(t)
	f := clientPlatform(t)
	out := npmtest.Script(t, "testdata/formats.mjs",
		"GATEWAY_URL="+f.URL, "GATEWAY_KEY="+f.Acme, "OPENAI_API_KEY=x")
	tasks := 0
	for line := range strings.Lines(out) {
		var got struct {
			Name, Failed string
			Object       map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		tasks++
		t.Run(got.Name, func(t *testing.T) {
			if strings.Contains(got.Name, "wrong") {
				require.Contains(t, got.Failed, "does not have the requested format")
				return
			}
			require.Empty(t, got.Failed)
			require.Equal(t, map[string]any{"city": "Paris"}, got.Object)
		})
	}
	require.Equal(t, 12, tasks)
}
