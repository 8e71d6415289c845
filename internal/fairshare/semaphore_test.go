package fairshare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSemaphoreOrder checks that tenants are served in turn, those first that were not served yet, and
// a tenant's callers in order.
func TestSemaphoreOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(1, 1, 10)
		release, err := s.Acquire(t.Context(), "mallory")
		require.NoError(t, err)
		var order []string
		for i := range 3 {
			wait(t, s, "mallory", func() { order = append(order, fmt.Sprint("mallory ", i)) })
		}
		for _, tenant := range []string{"beta", "acme"} {
			wait(t, s, tenant, func() { order = append(order, tenant) })
		}
		release(0)
		synctest.Wait()
		require.Equal(t, []string{"beta", "acme", "mallory 0", "mallory 1", "mallory 2"}, order)
		requireIdle(t, s, 1)
	})
}

// TestSemaphoreLeavesOneSlot checks that a tenant never gets the last free slot while it holds the
// others, even if it has waited longer, and that the tenant that holds the fewest is served first.
func TestSemaphoreLeavesOneSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(2, 1, Unlimited)
		mallory := acquire(t, s, "mallory")
		ctx, leave := context.WithCancelCause(t.Context())
		go leave(os.ErrClosed)
		_, err := s.Acquire(ctx, "mallory")
		require.ErrorIs(t, err, os.ErrClosed, "mallory never gets the last slot")

		acme := acquire(t, s, "acme")
		var order []string
		for _, tenant := range []string{"acme", "acme", "acme", "beta"} {
			wait(t, s, tenant, func() { order = append(order, tenant) }) // one at a time: the other slot is taken
		}
		mallory(0)
		synctest.Wait()
		require.Equal(t, []string{"beta"}, order, "acme holds a slot")
		acme(0)
		synctest.Wait()
		require.Equal(t, []string{"beta", "acme", "acme", "acme"}, order)
		requireIdle(t, s, 2)
	})
}

// TestSemaphoreServesBacklog checks that a tenant with a queue gets slots while two other tenants
// request their next slot as soon as they release one.
func TestSemaphoreServesBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const backlog = 4
		s := NewSemaphore(1, 1, Unlimited)
		release := acquire(t, s, "first")
		grants, released := make(chan string), make(chan struct{})
		request := func(tenant string) {
			wait(t, s, tenant, func() {
				grants <- tenant
				<-released
			})
		}
		for range backlog {
			request("backlog")
		}
		request("b")
		request("c")
		release(0)
		served := map[string]int{}
		for range 3 * backlog {
			tenant := <-grants
			served[tenant]++
			released <- struct{}{}
			if tenant != "backlog" {
				request(tenant)
			}
		}
		require.Equal(t, map[string]int{"backlog": backlog, "b": backlog, "c": backlog}, served)
		for range 2 { // the last requests of b and c
			<-grants
			released <- struct{}{}
		}
		synctest.Wait()
		requireIdle(t, s, 1)
	})
}

// TestSemaphoreTwoFloods checks that a tenant does not wait for the queues of two others that hold all
// slots.
func TestSemaphoreTwoFloods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(2, 1, Unlimited)
		one, two := acquire(t, s, "one"), acquire(t, s, "two")
		var order []string
		for _, tenant := range []string{"one", "two", "one", "two", "one", "two", "acme"} {
			wait(t, s, tenant, func() { order = append(order, tenant) })
		}
		two(0)
		synctest.Wait()
		require.Equal(t, "acme", order[0])
		one(0)
		synctest.Wait()
		require.Len(t, order, 7)
		requireIdle(t, s, 2)
	})
}

// TestSemaphoreExempt checks that an exempt tenant can hold all slots.
func TestSemaphoreExempt(t *testing.T) {
	t.Parallel()
	s := NewSemaphore(2, 1, 0)
	s.Exempt("")
	first, second := acquire(t, s, ""), acquire(t, s, "")
	require.Equal(t, 2, s.InUse())
	first(time.Hour)
	require.Equal(t, 1, s.InUse())
	second(0)
	require.Zero(t, s.InUse())
}

// acquire acquires a slot that is free.
func acquire(t *testing.T, s *Semaphore, tenant string) (release func(time.Duration)) {
	t.Helper()
	release, err := s.Acquire(t.Context(), tenant)
	require.NoError(t, err)
	return release
}

// wait starts a caller that acquires a slot, calls served and releases the slot. It returns when the
// caller waits or is done.
func wait(t *testing.T, s *Semaphore, tenant string, served func()) {
	t.Helper()
	go func() {
		release, err := s.Acquire(t.Context(), tenant)
		if err != nil {
			t.Error(err)
			return
		}
		served()
		release(0)
	}()
	synctest.Wait()
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

// requireIdle checks that all slots are free, and that the semaphore has dropped the state of all tenants.
func requireIdle(t *testing.T, s *Semaphore, slots int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.tenants)
	require.Empty(t, s.waiting)
	require.Equal(t, slots, s.free)
}
