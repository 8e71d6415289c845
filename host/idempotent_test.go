package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

func TestIdempotentTools(t *testing.T) {
	t.Parallel()
	h, err := host.New(t.Context(), nil)
	require.NoError(t, err)
	defer h.Close(t.Context())
	build := func(text string) (*host.Agent, error) {
		f, err := agentfile.Parse("agent.yaml", []byte(text))
		require.NoError(t, err)
		return h.NewAgentFromFile(t.Context(), f, &host.FileOptions{Model: scripted.New()})
	}
	a, err := build("tools: {builtin: [time], idempotent: [time]}")
	require.NoError(t, err)
	defer a.Close()
	require.True(t, a.Tools[0].Declaration().Idempotent)
	_, err = build("tools: {builtin: [time], idempotent: [tim]}")
	require.ErrorContains(t, err, `there is no tool "tim"`)
}
