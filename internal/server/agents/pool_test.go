package agents_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// fill builds an agent for each element of tenants, in this order, and releases it, so that the
// pool keeps it as idle.
func fill(f *servertest.Fixture, tenants ...string) {
	f.T.Helper()
	for i, tenant := range tenants {
		key, name := map[string]string{"acme": f.Acme, "beta": f.Beta}[tenant], string(rune('a'+i))
		require.Equal(f.T, 200, f.Apply(key, name, "model: {name: small}\n").Status)
		o, err := f.Services.Pool.Open(f.T.Context(), f.Store.Tenant(tenant), agents.Spec{Agent: name})
		require.NoError(f.T, err)
		o.Release()
	}
}

// TestAgentPoolMemory checks that Evict closes the least recently used idle agents above the limits
// of all tenants and of one tenant, and that agents in use stay in the pool.
func TestAgentPoolMemory(t *testing.T) {
	t.Parallel()
	f := servertest.NewWithReplies(t)
	f.OK("PATCH", "/v1/tenants/beta", f.Operator, map[string]any{"policy": policy.Policy{Models: []string{"small*"}}}, nil)
	pool := f.Services.Pool
	fill(f, "beta", "acme", "acme", "acme")
	pool.Evict(time.Hour, agents.MaxIdleBytes, agents.MaxIdleTenantBytes)
	require.Equal(t, map[string]int{"acme": 3, "beta": 1}, pool.Count())
	pool.Evict(time.Hour, 3*agents.AgentBytes, agents.MaxIdleTenantBytes)
	require.Equal(t, map[string]int{"acme": 3}, pool.Count(), "the least recently used one is closed")

	fill(f, "beta")
	pool.Evict(time.Hour, agents.MaxIdleBytes, 2*agents.AgentBytes)
	require.Equal(t, map[string]int{"acme": 2, "beta": 1}, pool.Count(), "the maximum of a tenant is smaller")

	o, err := pool.Open(t.Context(), f.Store.Tenant("beta"), agents.Spec{Agent: "a"})
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
	f := servertest.NewWithReplies(t)
	require.Equal(
		t,
		200,
		f.Send(
			"PUT",
			"/v1/modules?name=wrap&version=1",
			f.Acme,
			servertest.Wasm(t, "wrap.wasm"),
			"Content-Type",
			"application/wasm",
		).Status,
	)
	require.Equal(
		t,
		200,
		f.Apply(
			f.Acme,
			"a",
			"model: {name: small}\nmiddlewares: [{name: one, module: wrap}, {name: two, module: wrap}]\n",
		).Status,
	)
	modules := f.Services.Modules
	modules.CloseIdle()
	o, err := f.Services.Pool.Open(t.Context(), f.Store.Tenant("acme"), agents.Spec{Agent: "a"})
	require.NoError(t, err)
	o.Release()
	require.Zero(t, modules.CloseIdle())
	f.Services.Pool.CloseIdle()
	require.Equal(t, 1, modules.CloseIdle())
}
