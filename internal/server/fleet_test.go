package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// ready lets tenants have agents ready that nobody runs, the oldest first.
func (f *fixture) ready(tenants ...string) {
	f.t.Helper()
	for i, tenant := range tenants {
		key, name := map[string]string{"acme": f.acme, "beta": f.beta}[tenant], string(rune('a'+i))
		require.Equal(f.t, 200, f.apply(key, name, "model: {name: small}\n").status)
		o, err := f.server.fleet.open(f.t.Context(), f.store.Tenant(tenant), runSpec{Agent: name})
		require.NoError(f.t, err)
		o.release()
	}
}

// kept are the tenants whose agents are ready.
func (f *fleet) kept() (out map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out = map[string]int{}
	for _, r := range f.ready {
		out[r.tenant]++
	}
	return out
}

func (f *fleet) each(do func(r *ready)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.ready {
		do(r)
	}
}

// Agents that nobody runs are kept as long as there is memory for them.
func TestFleetMemory(t *testing.T) {
	t.Parallel()
	f := platform(t)
	f.ok("PATCH", "/v1/tenants/beta", f.operator, map[string]any{"policy": Policy{Models: []string{"small*"}}}, nil)
	fleet := f.server.fleet
	f.ready("beta", "acme", "acme", "acme")
	fleet.close(time.Hour, idleBytes)
	require.Equal(t, map[string]int{"acme": 3, "beta": 1}, fleet.kept())
	fleet.close(time.Hour, 3*agentBytes)
	require.Equal(t, map[string]int{"acme": 3}, fleet.kept(), "the one that was not used for the longest time")

	f.ready("beta")
	fleet.each(func(r *ready) { r.bytes = idleOfTenant / 2 })
	fleet.close(time.Hour, idleBytes)
	require.Equal(t, map[string]int{"acme": 2, "beta": 1}, fleet.kept(), "one tenant has less than all")

	o, err := fleet.open(t.Context(), f.store.Tenant("beta"), runSpec{Agent: "a"})
	require.NoError(t, err)
	fleet.close(0, 0)
	require.Equal(t, map[string]int{"beta": 1}, fleet.kept(), "it is used")
	o.release()
	fleet.close(0, 0)
	require.Empty(t, fleet.kept())
}

func TestAgentBytes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file string
		want int64
	}{
		"alone":   {"", agentBytes},
		"entries": {"middlewares: [{name: a, module: a}, {name: b, module: b}]\nrings: {outer: [{name: c, module: c}]}\n", agentBytes + 3*entryBytes},
		"servers": {"tools: {mcp: [{name: a, url: 'https://a.org/'}, {name: b, url: 'https://b.org/'}]}\n", agentBytes + 2*serverBytes},
		"inside": {"agents: [{name: inner, description: Helps., as: tool, agent: {middlewares: [{name: a, module: a}], tools: {mcp: [{name: b, url: 'https://b.org/'}]}}}]\n",
			agentBytes + entryBytes + serverBytes},
	} {
		file, err := agentfile.Parse("agent", []byte("model: {name: small}\n"+tc.file))
		require.NoError(t, err, name)
		require.Equal(t, tc.want, (&agentPlan{file: file}).bytes(), name)
	}
	require.EqualValues(t, agentBytes, new(agentPlan).bytes(), "it could not be read")
}

// A module stays on the shelf as long as agents that were made of it are kept.
func TestModulesOfKeptAgents(t *testing.T) {
	t.Parallel()
	f := platform(t)
	require.Equal(t, 200, f.send("PUT", "/v1/modules?name=wrap&version=1", f.acme, wasm(t, "wrap.wasm"), "Content-Type", "application/wasm").status)
	require.Equal(t, 200, f.apply(f.acme, "a", "model: {name: small}\nmiddlewares: [{name: one, module: wrap}, {name: two, module: wrap}]\n").status)
	shelf := f.server.modules.shelf
	shelf.close(0, 0)
	o, err := f.server.fleet.open(t.Context(), f.store.Tenant("acme"), runSpec{Agent: "a"})
	require.NoError(t, err)
	o.release()
	require.Zero(t, shelf.close(0, 0))
	f.server.fleet.close(0, 0)
	require.Equal(t, 1, shelf.close(0, 0))
}
