package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/account"
)

func TestTenantMemory(t *testing.T) {
	process := account.New(account.LevelProcess, "", nil, 400<<20)
	m := newMemory(process)
	a, release := m.Open("acme", 0)
	require.Equal(t, int64(100<<20), a.Limit(), "a quarter of the process's")
	b, releaseB := m.Open("acme", 1<<20)
	require.Same(t, a, b)
	require.Equal(t, int64(1<<20), a.Limit(), "the quota of the tenant, which may change")
	require.NoError(t, a.TryReserve(1000))
	release()
	release()
	require.Positive(t, process.Used(), "another run uses the account")
	releaseB()
	require.Zero(t, process.Used())
}
