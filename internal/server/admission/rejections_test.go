package admission

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// reject waits for n rejections of a tenant, one after another, and returns the time that this took.
func reject(ctx context.Context, r *Rejections, tenant string, n int) time.Duration {
	began := time.Now()
	for range n {
		r.Wait(ctx, tenant)
	}
	return time.Since(began)
}

func TestRejectionsAreDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRejections(nil)
		require.Zero(t, reject(t.Context(), r, "mallory", rejectionBurst))
		require.InDelta(t, 10, reject(t.Context(), r, "mallory", 500).Seconds(), 0.1, "50 a second")
		require.Zero(t, reject(t.Context(), r, "acme", 1))
		require.Zero(t, reject(t.Context(), r, NoKey, 1))
		for range 100 { // concurrently
			go reject(t.Context(), r, "mallory", 1)
		}
		synctest.Wait()
		require.Equal(t, MaxDelay, reject(t.Context(), r, "mallory", 1))
		time.Sleep(13 * time.Second)
		require.Zero(t, reject(t.Context(), r, "mallory", rejectionBurst))
	})
}

// TestDelayedRejectionsEnd checks that delays end with the client or the server, and that their
// number is bounded.
func TestDelayedRejectionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		r := newRejections(draining)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.Zero(t, reject(gone, r, "mallory", 10_000), "the client is gone")
		for range maxDelayed {
			go reject(t.Context(), r, "mallory", 1)
		}
		synctest.Wait()
		require.EqualValues(t, maxDelayed, r.delayed.Load())
		require.Zero(t, reject(t.Context(), r, "mallory", 1), "too many are delayed")
		close(draining)
		synctest.Wait()
		require.Zero(t, r.delayed.Load())
	})
}
