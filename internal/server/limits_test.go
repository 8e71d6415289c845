package server

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// No limit of a module is the tenant's to raise: also none that is added later.
func TestLimitsAreCapped(t *testing.T) {
	t.Parallel()
	f, err := agentfile.Parse("a", []byte("model: {name: x}\nmiddlewares: [{module: wrap}]\n"))
	require.NoError(t, err)
	kind := reflect.TypeFor[agentfile.ModuleLimits]()
	for i := range kind.NumField() {
		var l agentfile.ModuleLimits
		reflect.ValueOf(&l).Elem().Field(i).SetInt(1)
		require.NoError(t, checkLimits(f, "middlewares[0]", &l))
		reflect.ValueOf(&l).Elem().Field(i).SetInt(1 << 42)
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		require.ErrorContains(t, checkLimits(f, "middlewares[0]", &l), "limits."+name)
	}
}

func TestAgentLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, key := range []string{f.acme, f.operator} {
		require.Equal(t, 200, f.push(key, "?name=wrap", wasm(t, "wrap.wasm"), "application/wasm").status)
	}
	const high = "middlewares: [{module: wrap, limits: {memory: 128MiB}}]"
	require.Contains(t, f.apply(f.acme, "helper", high).problem(t, 422).Detail, "limits.memory")
	require.Contains(t, f.apply(f.acme, "helper", "agents: [{name: b, agent: {"+high+"}}]").problem(t, 422).Detail, "limits.memory")
	require.Equal(t, 200, f.apply(f.operator, "helper", high).status, "the operator may")
	require.Equal(t, 200, f.apply(f.acme, "helper", "middlewares: [{module: wrap, limits: {memory: 32MiB}}]").status)
	// A limit that the module cannot live with is found when the agent is put.
	require.Contains(t, f.apply(f.acme, "helper", "middlewares: [{module: wrap, limits: {module_bytes: 10}}]").problem(t, 422).Detail, "module")
}
