package fairshare

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBudgetShare checks that a tenant that works continuously is limited to its share of the
// time.
func TestBudgetShare(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.25, 1, 2.5} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const burst, span, piece = 100 * time.Millisecond, 100 * time.Second, 3 * time.Millisecond
				b := NewBudget(share, burst, time.Second)
				used := time.Duration(0)
				for began := time.Now(); time.Since(began) < span; {
					used += 4 * piece
					time.Sleep(piece + b.Charge("mallory", 4*piece)) // on four processors
					require.Zero(t, b.Charge("acme", time.Microsecond))
				}
				require.InDelta(t, share*span.Seconds()+burst.Seconds(), used.Seconds(), 0.3)
			})
		})
	}
}

// TestBudgetDelayIsCapped checks that no delay is longer than the maximum, and that any larger
// deficit is dropped.
func TestBudgetDelayIsCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const maxDelay = time.Second
		b := NewBudget(0.25, time.Second, maxDelay)
		require.Zero(t, b.Charge("mallory", time.Second))
		require.Equal(t, 400*time.Millisecond, b.Charge("mallory", 100*time.Millisecond))
		require.Equal(t, maxDelay, b.Charge("mallory", time.Hour))
		require.Equal(t, maxDelay, b.Charge("mallory", 0))
		time.Sleep(maxDelay)
		require.Zero(t, b.Charge("mallory", 0))
		time.Sleep(4 * time.Second)
		require.Equal(t, maxDelay, b.Charge("mallory", time.Hour), "a full burst, too")
	})
}

func TestIdleTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1, time.Second, time.Second)
		for i := range maxIdle {
			b.Charge(fmt.Sprint(i), time.Second)
		}
		time.Sleep(time.Second)
		b.Charge("another", time.Second)
		require.Len(t, b.buckets.of, 1)
	})
}

func TestRateLimiter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := NewRateLimiter(func() time.Time { return now })
	allow := func(tenant string, perMinute int64) time.Duration {
		retry, ok := r.Allow(tenant, perMinute)
		require.Equal(t, ok, retry == 0)
		return retry
	}
	for range 60 {
		require.Zero(t, allow("mallory", 60))
	}
	require.Equal(t, time.Second, allow("mallory", 60))
	require.Zero(t, allow("acme", 60))
	require.Zero(t, allow("mallory", 0), "no limit")
	now = now.Add(500 * time.Millisecond)
	require.Equal(t, 500*time.Millisecond, allow("mallory", 60))
	now = now.Add(500 * time.Millisecond)
	require.Zero(t, allow("mallory", 60))
	now = now.Add(2 * time.Hour)
	require.Zero(t, allow("mallory", 1), "the limit was changed")
	require.NotZero(t, allow("mallory", 1))
}
