package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/policy"
)

// ready lets tenants have agents ready that nobody runs, the oldest first.
func (f *fixture) ready(tenants ...string) {
	f.t.Helper()
	for i, tenant := range tenants {
		key, name := map[string]string{"acme": f.acme, "beta": f.beta}[tenant], string(rune('a'+i))
		require.Equal(f.t, 200, f.apply(key, name, "model: {name: small}\n").status)
		o, err := f.server.fleet.Open(f.t.Context(), f.store.Tenant(tenant), agents.Spec{Agent: name})
		require.NoError(f.t, err)
		o.Release()
	}
}

// kept are the tenants whose agents are ready.
func kept(f *agents.Pool) (out map[string]int) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	out = map[string]int{}
	for _, r := range f.Ready {
		out[r.Tenant]++
	}
	return out
}

func each(f *agents.Pool, do func(r *agents.PooledAgent)) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, r := range f.Ready {
		do(r)
	}
}

// Agents that nobody runs are kept as long as there is memory for them.
func TestFleetMemory(t *testing.T) {
	t.Parallel()
	f := platform(t)
	f.ok("PATCH", "/v1/tenants/beta", f.operator, map[string]any{"policy": policy.Policy{Models: []string{"small*"}}}, nil)
	fleet := f.server.fleet
	f.ready("beta", "acme", "acme", "acme")
	fleet.Close(time.Hour, agents.IdleBytes)
	require.Equal(t, map[string]int{"acme": 3, "beta": 1}, kept(fleet))
	fleet.Close(time.Hour, 3*agents.AgentBytes)
	require.Equal(t, map[string]int{"acme": 3}, kept(fleet), "the one that was not used for the longest time")

	f.ready("beta")
	each(fleet, func(r *agents.PooledAgent) { r.Bytes = agents.IdleOfTenant / 2 })
	fleet.Close(time.Hour, agents.IdleBytes)
	require.Equal(t, map[string]int{"acme": 2, "beta": 1}, kept(fleet), "one tenant has less than all")

	o, err := fleet.Open(t.Context(), f.store.Tenant("beta"), agents.Spec{Agent: "a"})
	require.NoError(t, err)
	fleet.Close(0, 0)
	require.Equal(t, map[string]int{"beta": 1}, kept(fleet), "it is used")
	o.Release()
	fleet.Close(0, 0)
	require.Empty(t, kept(fleet))
}

// A module stays on the shelf as long as agents that were made of it are kept.
func TestModulesOfKeptAgents(t *testing.T) {
	t.Parallel()
	f := platform(t)
	require.Equal(t, 200, f.send("PUT", "/v1/modules?name=wrap&version=1", f.acme, wasm(t, "wrap.wasm"), "Content-Type", "application/wasm").status)
	require.Equal(t, 200, f.apply(f.acme, "a", "model: {name: small}\nmiddlewares: [{name: one, module: wrap}, {name: two, module: wrap}]\n").status)
	modules := f.server.modules
	modules.CloseIdle()
	o, err := f.server.fleet.Open(t.Context(), f.store.Tenant("acme"), agents.Spec{Agent: "a"})
	require.NoError(t, err)
	o.Release()
	require.Zero(t, modules.CloseIdle())
	f.server.fleet.Close(0, 0)
	require.Equal(t, 1, modules.CloseIdle())
}
