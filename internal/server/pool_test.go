package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/policy"
)

// pool builds an agent for each element of tenants, in this order, and releases it, so that the
// pool keeps it as idle.
func (f *fixture) pool(tenants ...string) {
	f.t.Helper()
	for i, tenant := range tenants {
		key, name := map[string]string{"acme": f.acme, "beta": f.beta}[tenant], string(rune('a'+i))
		require.Equal(f.t, 200, f.apply(key, name, "model: {name: small}\n").status)
		o, err := f.server.pool.Open(f.t.Context(), f.store.Tenant(tenant), agents.Spec{Agent: name})
		require.NoError(f.t, err)
		o.Release()
	}
}

// TestAgentPoolMemory checks that Evict closes the least recently used idle agents above the limits
// of all tenants and of one tenant, and that agents in use stay in the pool.
func TestAgentPoolMemory(t *testing.T) {
	t.Parallel()
	f := platform(t)
	f.ok("PATCH", "/v1/tenants/beta", f.operator, map[string]any{"policy": policy.Policy{Models: []string{"small*"}}}, nil)
	pool := f.server.pool
	f.pool("beta", "acme", "acme", "acme")
	pool.Evict(time.Hour, agents.MaxIdleBytes, agents.MaxIdleTenantBytes)
	require.Equal(t, map[string]int{"acme": 3, "beta": 1}, pool.Count())
	pool.Evict(time.Hour, 3*agents.AgentBytes, agents.MaxIdleTenantBytes)
	require.Equal(t, map[string]int{"acme": 3}, pool.Count(), "the least recently used one is closed")

	f.pool("beta")
	pool.Evict(time.Hour, agents.MaxIdleBytes, 2*agents.AgentBytes)
	require.Equal(t, map[string]int{"acme": 2, "beta": 1}, pool.Count(), "the maximum of a tenant is smaller")

	o, err := pool.Open(t.Context(), f.store.Tenant("beta"), agents.Spec{Agent: "a"})
	require.NoError(t, err)
	pool.CloseIdle()
	require.Equal(t, map[string]int{"beta": 1}, pool.Count(), "it is in use")
	o.Release()
	pool.CloseIdle()
	require.Empty(t, pool.Count())
}

// TestModulesOfPooledAgents checks that a module stays loaded while an agent in the pool uses it.
func TestModulesOfPooledAgents(t *testing.T) {
	t.Parallel()
	f := platform(t)
	require.Equal(
		t,
		200,
		f.send(
			"PUT",
			"/v1/modules?name=wrap&version=1",
			f.acme,
			wasm(t, "wrap.wasm"),
			"Content-Type",
			"application/wasm",
		).status,
	)
	require.Equal(
		t,
		200,
		f.apply(
			f.acme,
			"a",
			"model: {name: small}\nmiddlewares: [{name: one, module: wrap}, {name: two, module: wrap}]\n",
		).status,
	)
	modules := f.server.modules
	modules.CloseIdle()
	o, err := f.server.pool.Open(t.Context(), f.store.Tenant("acme"), agents.Spec{Agent: "a"})
	require.NoError(t, err)
	o.Release()
	require.Zero(t, modules.CloseIdle())
	f.server.pool.CloseIdle()
	require.Equal(t, 1, modules.CloseIdle())
}
