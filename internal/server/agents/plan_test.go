package agents

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

func TestAgentBytes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file string
		want int64
	}{
		"alone":   {"", AgentBytes},
		"entries": {"middlewares: [{name: a, module: a}, {name: b, module: b}]\nrings: {outer: [{name: c, module: c}]}\n", AgentBytes + 3*entryBytes},
		"servers": {"tools: {mcp: [{name: a, url: 'https://a.org/'}, {name: b, url: 'https://b.org/'}]}\n", AgentBytes + 2*serverBytes},
		"inside": {"agents: [{name: inner, description: Helps., as: tool, agent: {middlewares: [{name: a, module: a}], tools: {mcp: [{name: b, url: 'https://b.org/'}]}}}]\n",
			AgentBytes + entryBytes + serverBytes},
	} {
		file, err := agentfile.Parse("agent", []byte("model: {name: small}\n"+tc.file))
		require.NoError(t, err, name)
		require.Equal(t, tc.want, (&Plan{file: file}).bytes(), name)
	}
	require.EqualValues(t, AgentBytes, new(Plan).bytes(), "it could not be read")
}
