package fairshare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSemaphoreOrder checks that tenants are served in turn, and a tenant's callers in order.
func TestSemaphoreOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(1, 1, 10)
		release, err := s.Acquire(t.Context(), "mallory")
		require.NoError(t, err)
		var order []string
		wait := func(tenant, caller string) {
			go func() {
				release, err := s.Acquire(t.Context(), tenant)
				require.NoError(t, err)
				order = append(order, caller)
				release(0)
			}()
			synctest.Wait()
		}
		for i := range 3 {
			wait("mallory", fmt.Sprint("mallory ", i))
		}
		wait("beta", "beta")
		wait("acme", "acme")
		release(0)
		synctest.Wait()
		require.Equal(t, []string{"mallory 0", "beta", "acme", "mallory 1", "mallory 2"}, order)
		requireIdle(t, s, 1)
	})
}

// TestSemaphorePerTenant checks that a tenant at its maximum leaves the other slots free.
func TestSemaphorePerTenant(t *testing.T) {
	t.Parallel()
	s := NewSemaphore(2, 1, 10)
	release, err := s.Acquire(t.Context(), "mallory")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("gone"))
	defer cancel()
	_, err = s.Acquire(ctx, "mallory")
	require.EqualError(t, err, "gone")
	other, err := s.Acquire(t.Context(), "acme")
	require.NoError(t, err)
	other(0)
	release(0)
	release(0) // has no effect
	requireIdle(t, s, 2)
}

func TestSemaphoreQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(1, 1, 1)
		release, err := s.Acquire(t.Context(), "mallory")
		require.NoError(t, err)
		served := make(chan struct{})
		go func() {
			release, err := s.Acquire(t.Context(), "mallory")
			require.NoError(t, err)
			release(0)
			close(served)
		}()
		synctest.Wait()
		var full *QueueFullError
		_, err = s.Acquire(t.Context(), "mallory")
		require.ErrorAs(t, err, &full)
		require.Equal(t, 1, full.Queue)
		release(0)
		<-served

		none := NewSemaphore(1, 1, 0)
		release, err = none.Acquire(t.Context(), "mallory")
		require.NoError(t, err, "a free slot needs no queue")
		_, err = none.Acquire(t.Context(), "acme")
		require.ErrorAs(t, err, &full)
		release(0)
		requireIdle(t, none, 1)
	})
}

// TestSemaphoreDelay checks that a delayed slot is free for other tenants at once.
func TestSemaphoreDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(1, 1, 10)
		began := time.Now()
		acquire := func(tenant string) func(time.Duration) {
			release, err := s.Acquire(t.Context(), tenant)
			require.NoError(t, err)
			return release
		}
		acquire("mallory")(time.Second)
		acquire("acme")(0)
		require.Zero(t, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := s.Acquire(ctx, "mallory")
		require.ErrorIs(t, err, context.DeadlineExceeded, "a delayed caller can leave")
		acquire("mallory")(0)
		require.Equal(t, time.Second, time.Since(began))
		requireIdle(t, s, 1)
	})
}

// TestSemaphoreUnderLoad checks the limits with many callers that come and leave.
func TestSemaphoreUnderLoad(t *testing.T) {
	t.Parallel()
	const slots, perTenant = 3, 2
	s := NewSemaphore(slots, perTenant, 1000)
	var all atomic.Int64
	var of [4]atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			n := i % len(of)
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(300))*time.Microsecond)
				release, err := s.Acquire(ctx, fmt.Sprint(n))
				cancel()
				if err != nil {
					continue
				}
				if all.Add(1) > slots || of[n].Add(1) > perTenant {
					t.Error("more slots are held than there are")
				}
				time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
				of[n].Add(-1)
				all.Add(-1)
				release(time.Duration(rand.IntN(2)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.tenants) == 0
	}, time.Minute, time.Millisecond)
	requireIdle(t, s, slots)
}

// requireIdle checks that all slots are free, and no tenant is remembered.
func requireIdle(t *testing.T, s *Semaphore, slots int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.tenants)
	require.Empty(t, s.waiting)
	require.Equal(t, slots, s.free)
}
