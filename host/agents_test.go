package host_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// A counter records the model names in the requests to a model.
type counter struct {
	model.Model
	calls *[]string
}

func (c counter) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	*c.calls = append(*c.calls, req.Model)
	return c.Model.Generate(ctx, req, sink)
}

// TestAgentsOfAFile checks that the sub-agents of a file use their own models or else the outer
// agent's, that the model wrapper is called once for each request, and that the rings of the outer
// agent apply to sub-agents.
func TestAgentsOfAFile(t *testing.T) {
	t.Parallel()
	first := serve(t, scripted.Calls(abi.NewToolCall("1", "researcher", `{"request":"find out"}`)), scripted.Text("found"),
		scripted.Calls(abi.NewToolCall("2", "transfer_to_agent", `{"agent":"sales"}`)))
	second := serve(t, scripted.Text("seven euros"))
	dir := t.TempDir()
	require.NoError(
		t,
		os.WriteFile(
			filepath.Join(dir, "sales.yaml"),
			[]byte("model: {name: small, base_url: '"+second.URL+"'}\ninstruction: Sell.\n"),
			0o600,
		),
	)
	path := filepath.Join(dir, "agent.yaml")
	modules, err := filepath.Abs("../testdata/modules")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(`
name: front
model: {name: big, base_url: '`+first.URL+`'}
tools: {builtin: []}
rings:
  outer: [{module: `+modules+`/puppet.wasm, name: guard, config: {do: x}}]
agents:
  - name: researcher
    description: Finds out.
    agent: {instruction: Research., tools: {builtin: [time]}}
  - {name: sales, description: Sells., as: transfer, file: sales.yaml}
`), 0o600))
	f, err := agentfile.Load(path)
	require.NoError(t, err)
	var asked []string
	a, err := newHost(
		t,
	).NewAgentFromFile(t.Context(), f, &host.FileOptions{Getenv: env(map[string]string{"OPENAI_API_KEY": "k"}),
		WrapModel: func(m model.Model) (model.Model, error) { return counter{m, &asked}, nil }})
	require.NoError(t, err)
	defer a.Close()
	var end abi.Event
	inner := map[string]bool{}
	for e, err := range a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User("hi")}}) {
		require.NoError(t, err)
		if end = e; e.Type == abi.EventChild && e.Event.Type == abi.EventRunFinished {
			for _, s := range e.Event.Entries {
				inner[s.Entry] = true
			}
		}
	}
	require.Equal(t, "seven euros", end.Message.Content.String())
	require.Equal(t, []string{"big", "big", "big", "small"}, asked, "the wrapper is around every model, once")
	require.Len(t, second.Requests(), 1)
	require.Equal(t, map[string]bool{"guard": true}, inner, "a ring is around the agents of the file as well")
	var entries []string
	for _, s := range end.Entries {
		entries = append(entries, s.Agent+"/"+s.Entry)
	}
	require.Equal(t, []string{"front/guard", "sales/guard"}, entries)
}

func TestAgentsThatCannotBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("self.yaml", "agents: [{name: a, file: self.yaml}]")
	write("bad.yaml", "limits: {max_steps: 0}")
	for name, c := range map[string]struct{ text, want string }{
		"itself":        {"agents: [{name: a, file: self.yaml}]", "self.yaml:1:20: "},
		"a bad file":    {"agents: [{name: a, file: bad.yaml}]", "bad.yaml:1:10: max_steps: want a number above 0"},
		"a bad inline":  {"agents:\n  - name: a\n    agent: {limits: {max_steps: 0}}", "x.yaml:3:22: max_steps: want a number above 0"},
		"no file":       {"agents: [{name: a, file: none.yaml}]", "x.yaml:1:20: "},
		"neither":       {"agents: [{name: a}]", "an agent needs either file or agent"},
		"twice":         {"agents: [{name: a, agent: {}}, {name: a, agent: {}}]", `two agents are named "a"`},
		"its own name":  {"name: a\nagents: [{name: a, agent: {}}]", `two agents are named "a"`},
		"no name":       {"agents: [{agent: {}}]", "an agent needs a name"},
		"a bad name":    {"agents: [{name: 'a b', agent: {}}]", "an agent needs a name"},
		"no such use":   {"agents: [{name: a, as: helper, agent: {}}]", `unknown use "helper"; allowed: tool, transfer`},
		"two circles":   {"agents: [{name: a, as: transfer, agent: {agents: [{name: b, as: transfer, agent: {}}]}}]", `agent "a" has as: transfer, and so have agents of its own`},
		"a tool's name": {"model: {name: m}\nagents: [{name: time, agent: {}}]", `tool "time" is offered by the agent's tools and by its agents`},
	} {
		t.Run(name, func(t *testing.T) {
			path := write("x.yaml", c.text)
			f, err := agentfile.Load(path)
			if err == nil {
				_, err = newHost(
					t,
				).NewAgentFromFile(t.Context(), f, &host.FileOptions{Getenv: env(map[string]string{"OPENAI_API_KEY": "k"})})
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
