package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/npmtest"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// talkModel answers with the number of messages of users and of systems in the request, and with the
// text of the last message. For the text "weather", it first calls a tool of the client.
func talkModel(_ int, req *model.Request) scripted.Reply {
	users, systems := 0, 0
	for _, m := range req.Messages {
		switch m.Role {
		case abi.RoleUser:
			users++
		case abi.RoleSystem:
			systems++
		}
	}
	last := req.Messages[len(req.Messages)-1]
	if last.Content.String() == "weather" {
		call := abi.NewToolCall(fmt.Sprint("c", users), "get_weather", `{"city":"Paris"}`)
		return scripted.Message(abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{call}})
	}
	return scripted.Text(fmt.Sprintf("%d/%d: %s", users, systems, last.Content.String()))
}

// TestThreadClients checks that each client of the model APIs and of AG-UI can hold a conversation of
// several turns with an agent in a thread.
func TestThreadClients(t *testing.T) {
	t.Parallel()
	npmtest.Folder(t)
	f := servertest.New(t)
	f.SetModel(scripted.Func(talkModel))
	require.Equal(t, 200, f.Apply(f.Acme, "m", "model: {name: small}\n").Status)
	out := npmtest.Script(t, "testdata/threads.mjs", "SERVER_URL="+f.URL, "SERVER_KEY="+f.Acme, "OPENAI_API_KEY=x")
	clients := 0
	for line := range strings.Lines(out) {
		var got struct {
			Name, Failed string
			Answers      []string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		clients++
		t.Run(got.Name, func(t *testing.T) {
			require.Empty(t, got.Failed)
			second := "2/1: sunny in Paris"
			if got.Name == "openai conversation" || got.Name == "anthropic" {
				second = "2/1: two"
			}
			require.Equal(t, []string{"1/1: one", second, "3/1: three"}, got.Answers)
		})
	}
	require.Equal(t, 10, clients)
}
