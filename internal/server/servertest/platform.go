package servertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/openaitest"
	"github.com/agent-runner/agent-runner/internal/server/policy"
)

// Apply sends an agent file with an API key, and returns the reply.
func (f *Fixture) Apply(key, name, yaml string) *Reply {
	f.T.Helper()
	return f.Send("PUT", "/v1/agents/"+name, key, []byte(yaml), "Content-Type", "application/yaml")
}

// OperatorsModelKey is an API key of the operator's model, which tenants must not see.
const OperatorsModelKey = "the operator's own key"

// NewWithReplies returns a fixture whose operator's model gives the replies in turn. Agents of acme may use
// the model.
func NewWithReplies(t *testing.T, replies ...scripted.Reply) *Fixture {
	t.Helper()
	f := New(t)
	f.SetReplies(replies...)
	return f
}

// SetReplies makes the operator's model give the replies in turn. See [Fixture.SetModel].
func (f *Fixture) SetReplies(replies ...scripted.Reply) {
	f.T.Helper()
	f.SetModel(scripted.New(replies...))
}

// SetModel replaces the operator's model, which the server reaches over OpenAI's API, and allows acme its
// models whose names begin with small.
func (f *Fixture) SetModel(m model.Model) {
	t := f.T
	t.Helper()
	served, err := openaitest.New(m)
	require.NoError(t, err)
	t.Cleanup(served.Close)
	f.Services.Agents.Options.Getenv = func(name string) string {
		return map[string]string{agentfile.EnvBaseURL: served.URL, agentfile.EnvAPIKey: OperatorsModelKey}[name]
	}
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"policy": policy.Policy{Models: []string{"small*"}}}, nil)
}

// NewWithCanary returns a fixture whose agent clerk of acme has the stable version 1, and a version 2 whose
// module faults in each run. The model has n replies.
func NewWithCanary(t *testing.T, n int) *Fixture {
	t.Helper()
	script := make([]scripted.Reply, 0, n)
	for range n {
		script = append(script, scripted.Text("hi"))
	}
	f := NewWithReplies(t, script...)
	f.Upload(f.Acme, "plain", Scripts["plain"])
	f.Upload(f.Acme, "faulty", `export default { name: "faulty", before_model() { return { request: 5 }; } };`)
	require.Equal(t, 200, f.Apply(f.Acme, "clerk", "model: {name: small}\nmiddlewares: [{module: plain}]\n").Status)
	require.Equal(t, 200, f.Apply(f.Acme, "clerk",
		"model: {name: small}\nmiddlewares: [{module: faulty, on_fault: skip}]\n").Status)
	f.OK("PUT", "/v1/agents/clerk/aliases/stable", f.Acme, map[string]any{"version": 1}, nil)
	return f
}
