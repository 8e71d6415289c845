package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOtherTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newInFlight()
		enter := func(tenant string) (leave func()) {
			_, leave, err := f.Enter(tenant, 0, false, 0)
			require.NoError(t, err)
			return leave
		}
		require.False(t, f.Others("acme"))
		enter("acme")()
		enter("acme")()
		require.False(t, f.Others("acme"))
		require.True(t, f.Others("beta"))
		leave := enter("beta")
		enter("acme")()
		time.Sleep(activeFor)
		require.True(t, f.Others("acme"), "a request is in flight")
		require.False(t, f.Others("beta"))
		leave()
		require.False(t, f.Others("acme"))
		enter("beta")()
		require.True(t, f.Others("acme"), "a request was in flight a moment ago")
	})
}

func TestBodiesInFlight(t *testing.T) {
	t.Parallel()
	f := newInFlight()
	var full *QuotaError
	bodyDone, leave, err := f.Enter("acme", 0, false, MaxBodyBytes-1)
	require.NoError(t, err)
	_, _, err = f.Enter("acme", 0, false, 2)
	require.ErrorAs(t, err, &full)
	require.Equal(t, "body_bytes", full.Quota)
	_, leaveBeta, err := f.Enter("beta", 0, false, 2)
	require.NoError(t, err)
	bodyDone()
	_, leaveNext, err := f.Enter("acme", 0, false, 2)
	require.NoError(t, err, "a stream does not hold the body that it began with")
	leaveNext()
	leave()
	_, leave, err = f.Enter("acme", 0, false, 2*MaxBodyBytes)
	require.NoError(t, err, "a tenant's only request is admitted whatever its size")
	leave()
	leaveBeta()
	require.Empty(t, f.tenants)
}

func TestRequestsInFlight(t *testing.T) {
	t.Parallel()
	f := newInFlight()
	_, _, err := f.Enter("acme", 1, false, 0)
	require.NoError(t, err)
	var full *QuotaError
	_, _, err = f.Enter("acme", 1, false, 0)
	require.ErrorAs(t, err, &full)
	require.Equal(t, "concurrent_requests", full.Quota)
	_, _, err = f.Enter("acme", 1, true, 0)
	require.NoError(t, err, "control requests have some more")
	require.NotEmpty(t, f.tenants)
}
