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

// TestRateOfEndUser checks that an end user can send a quarter of the tenant's requests a minute, and
// a small tenant's end user all of them.
func TestRateOfEndUser(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ tenant, user int64 }{{1000, 250}, {100, 60}, {30, 30}} {
		now := time.Now()
		c := New(1, func() time.Time { return now }, nil)
		for range test.user {
			require.NoError(t, c.CheckEndUserRate("acme", "ann", test.tenant))
		}
		var quota *QuotaError
		require.ErrorAs(t, c.CheckEndUserRate("acme", "ann", test.tenant), &quota)
		require.Equal(t, "requests_per_minute", quota.Quota)
		require.Positive(t, quota.RetryAfter)
		require.NoError(t, c.CheckEndUserRate("acme", "bob", test.tenant))
		require.NoError(t, c.CheckEndUserRate("other", "ann", test.tenant))
		now = now.Add(quota.RetryAfter + time.Millisecond)
		require.NoError(t, c.CheckEndUserRate("acme", "ann", test.tenant))
	}
	c := New(1, time.Now, nil)
	for range 10_000 {
		require.NoError(t, c.CheckEndUserRate("acme", "ann", 0), "a tenant without a limit")
	}
}
