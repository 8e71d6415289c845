package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// TestClientTools checks that calls of client tools pause the run, and that a tool of the host that
// was called in the same round is not run again.
func TestClientTools(t *testing.T) {
	t.Parallel()
	own := 0
	m := scripted.New(
		scripted.Calls(
			abi.NewToolCall("1", "t", "{}"),
			abi.NewToolCall("2", "show", `{"a":1}`),
			abi.NewToolCall("3", "show", `{"a":2}`),
			abi.NewToolCall("4", "show", `{}`),
		),
		scripted.Text("done"),
	)
	base, err := agent.New(&agent.Options{Model: m, Tools: counted(&own)})
	require.NoError(t, err)
	a, err := base.WithTools(tool.ByClient(abi.Tool{Name: "show", Description: "shows it to the user"}))
	require.NoError(t, err)
	var paused *agent.PausedError
	for _, err := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("go")}}) {
		errors.As(err, &paused)
	}
	require.NotNil(t, paused)
	require.Len(t, paused.Interrupts, 3)
	answers := map[string]json.RawMessage{}
	for i, p := range paused.Interrupts {
		require.True(t, toolcall.IsClient(p))
		answers[p.ID] = json.RawMessage([]string{`"shown"`, `{"content":"no such thing","is_error":true}`, `7`}[i])
	}
	events, err := a.Resume(context.Background(), paused.State, answers)
	require.NoError(t, err)
	var last abi.Event
	for e, err := range events {
		require.NoError(t, err)
		last = e
	}
	require.Equal(t, "done", last.Message.Content.String())
	require.Equal(t, 1, own)
	asked := m.Requests()[1].Messages
	require.Equal(t, "shown", asked[3].Content.String())
	require.Equal(t, "no such thing", asked[4].Content.String())
	require.Contains(t, asked[5].Content.String(), "want a text or a result")
	require.Len(t, m.Requests()[0].Tools, 2)

	_, err = base.WithTools(tool.ByClient(abi.Tool{Name: "t"}))
	require.ErrorContains(t, err, `two tools are named "t"`)
	require.Len(t, base.Tools, 1)
}
