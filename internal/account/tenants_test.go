package account

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTenantsShareAnAccount checks that the users of a tenant share an account, and that it is
// closed when the last of them has released it.
func TestTenantsShareAnAccount(t *testing.T) {
	process := New(LevelProcess, "", nil, 400<<20)
	tenants := NewTenants(func(tenant string) *Account { return New(LevelTenant, tenant, process, 0) })
	a, release := tenants.Open("acme")
	same, releaseSame := tenants.Open("acme")
	other, releaseOther := tenants.Open("beta")
	require.Same(t, a, same)
	require.NotSame(t, a, other)
	releaseOther()
	require.NoError(t, a.TryReserve(1000))
	release()
	release()
	require.Positive(t, process.Used(), "another user has the account")
	releaseSame()
	require.Zero(t, process.Used())
	require.Empty(t, tenants.tenants)
}
