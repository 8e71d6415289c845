package agents

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/store"
)

// FuzzAgent checks that checkFile accepts no tenant's file that names a local file, a command or a
// ring.
func FuzzAgent(f *testing.F) {
	for _, s := range []string{"model: {name: x}\n", "tools: {root: /}", "tools: {mcp: [{name: x, command: [sh]}]}", "tools: {mcp: [{name: x, url: 'https://a.example.com/'}]}",
		"rings: {outer: [{module: a}]}", "agents: [{name: b, agent: {tools: {root: /}}}]", "agents: [{name: b, file: /etc/passwd}]",
		"middlewares: [{module: a, grants: [http:x], limits: {memory: 128MiB}}]", "a: &a [*a]", "model: {name: x, fallbacks: [{name: y, base_url: 'http://127.0.0.1'}]}"} {
		f.Add([]byte(s))
	}
	c := &httpapi.Caller{Key: &store.Key{Tenant: "acme"}}
	f.Fuzz(func(t *testing.T, body []byte) {
		parsed, err := agentfile.Parse("a", body)
		if err != nil {
			return
		}
		if err := checkFile(parsed, c, &policy.Policy{Hosts: []string{"*.example.com"}}, noCommands{}); err != nil {
			require.NotEmpty(t, FileProblem(err).Error())
			return
		}
		var look func(*agentfile.File)
		look = func(file *agentfile.File) {
			require.Empty(t, file.Tools.Root)
			require.Empty(t, file.Rings.Outer)
			require.Empty(t, file.Rings.Inner)
			for _, s := range file.Tools.MCP {
				require.Nil(t, s.Command)
			}
			for i := range file.Agents {
				require.NotNil(t, file.Agents[i].Spec())
				look(file.Agents[i].Spec())
			}
		}
		look(parsed)
		setsEndpoint(parsed)
		usesOperatorKey(parsed)
	})
}
