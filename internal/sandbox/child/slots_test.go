package child

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// held returns the number of slots that a tenant holds.
func (s *slots) held(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.tenants[name]; of != nil {
		return of.held
	}
	return 0
}

// waiting returns the number of waiting acquisitions.
func (s *slots) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// TestSlotsAreShared checks that a tenant never gets the last free slot while it holds the others,
// even if it has waited longer.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	s := newSlots(2)
	mallory, err := s.acquire(t.Context(), "mallory")
	require.NoError(t, err)
	leaving, leave := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	var order []string
	next := func(ctx context.Context, tenant, name string) {
		before := s.waiting()
		wg.Go(func() {
			release, err := s.acquire(ctx, tenant)
			if err != nil {
				require.ErrorIs(t, err, os.ErrClosed)
				return
			}
			order = append(order, name) // one at a time: the other slot is taken
			release()
			release() // has no effect
		})
		require.Eventually(t, func() bool { return s.waiting() == before+1 }, time.Minute, time.Millisecond)
	}
	next(leaving, "mallory", "leaving") // mallory never gets the last slot
	leave(os.ErrClosed)
	wg.Wait()
	require.Empty(t, order)

	acme, err := s.acquire(t.Context(), "acme")
	require.NoError(t, err, "the last slot is free for another tenant")
	for range 3 {
		next(t.Context(), "acme", "acme")
	}
	next(t.Context(), "beta", "beta")
	mallory()
	require.Eventually(t, func() bool { return s.waiting() == 3 && s.held("beta") == 0 }, time.Minute, time.Millisecond)
	acme()
	wg.Wait()
	require.Equal(t, []string{"beta", "acme", "acme", "acme"}, order)
	require.Empty(t, s.tenants)
	require.Equal(t, 2, s.free)
}

// TestBacklogGetsSlots checks that a tenant with waiting jobs gets slots while two other tenants send
// their next job as soon as one ends.
func TestBacklogGetsSlots(t *testing.T) {
	t.Parallel()
	s := newSlots(1)
	release, err := s.acquire(t.Context(), "first")
	require.NoError(t, err)
	type grant struct {
		tenant  string
		release func()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	grants := make(chan grant, 1) // one slot
	wait := func(tenant string) {
		before := s.waiting()
		wg.Go(func() {
			if release, err := s.acquire(ctx, tenant); err == nil {
				grants <- grant{tenant, release}
			}
		})
		require.Eventually(t, func() bool { return s.waiting() == before+1 }, time.Minute, time.Millisecond)
	}
	const backlog = 4
	for range backlog {
		wait("backlog")
	}
	wait("b")
	wait("c")
	release()
	served := map[string]int{}
	for range 3 * backlog {
		g := <-grants
		served[g.tenant]++
		g.release()
		if g.tenant != "backlog" {
			wait(g.tenant)
		}
	}
	require.Equal(t, map[string]int{"backlog": backlog, "b": backlog, "c": backlog}, served)
	cancel()
	wg.Wait()
}

// TestSlotsOfTwoFloods checks that a tenant does not wait for the queues of two others that
// hold all slots.
func TestSlotsOfTwoFloods(t *testing.T) {
	t.Parallel()
	s := newSlots(2)
	one, err := s.acquire(t.Context(), "one")
	require.NoError(t, err)
	two, err := s.acquire(t.Context(), "two")
	require.NoError(t, err)
	var wg sync.WaitGroup
	served := make(chan string, 7)
	next := func(name string) {
		before := s.waiting()
		wg.Go(func() {
			release, err := s.acquire(t.Context(), name)
			require.NoError(t, err)
			served <- name
			release()
		})
		require.Eventually(t, func() bool { return s.waiting() == before+1 }, time.Minute, time.Millisecond)
	}
	for range 3 {
		next("one")
		next("two")
	}
	next("acme")
	two()
	require.Equal(t, "acme", <-served)
	one()
	wg.Wait()
	require.Empty(t, s.tenants)
}
