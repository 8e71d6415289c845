package sandbox

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// held returns how many slots a sharer holds.
func (s *slots) held(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.sharers[name]; of != nil {
		return of.held
	}
	return 0
}

// waiting returns how many acquisitions wait.
func (s *slots) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	s := newSlots(2)
	as := func(name string) context.Context { return Sharing(t.Context(), &Sharer{Name: name}) }
	mallory, err := s.acquire(as("mallory"))
	require.NoError(t, err)
	leaving, leave := context.WithCancelCause(as("mallory"))
	var wg sync.WaitGroup
	var order []string
	next := func(ctx context.Context, name string) {
		before := s.waiting()
		wg.Go(func() {
			release, err := s.acquire(ctx)
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
	next(leaving, "leaving") // mallory never gets the last slot
	leave(os.ErrClosed)
	wg.Wait()
	require.Empty(t, order)

	acme, err := s.acquire(as("acme"))
	require.NoError(t, err, "the last slot is free for another sharer")
	for range 3 {
		next(as("acme"), "acme")
	}
	next(as("beta"), "beta")
	mallory()
	require.Eventually(t, func() bool { return s.waiting() == 3 && s.held("beta") == 0 }, time.Minute, time.Millisecond)
	acme()
	wg.Wait()
	require.Equal(t, []string{"beta", "acme", "acme", "acme"}, order)
	require.Empty(t, s.sharers)
	require.Equal(t, 2, s.free)
}

// TestSlotsOfTwoFloods checks that a sharer does not wait for the queues of two others that
// hold all slots.
func TestSlotsOfTwoFloods(t *testing.T) {
	t.Parallel()
	s := newSlots(2)
	as := func(name string) context.Context { return Sharing(t.Context(), &Sharer{Name: name}) }
	one, err := s.acquire(as("one"))
	require.NoError(t, err)
	two, err := s.acquire(as("two"))
	require.NoError(t, err)
	var wg sync.WaitGroup
	served := make(chan string, 7)
	next := func(name string) {
		before := s.waiting()
		wg.Go(func() {
			release, err := s.acquire(as(name))
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
	require.Empty(t, s.sharers)
}

// TestAbandonedCompile checks that a compilation ends when its callers have left, and
// not before.
func TestAbandonedCompile(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{CompileChild: &ChildOptions{Time: time.Hour, Most: 1}})
	first, leaveFirst := context.WithCancel(t.Context())
	second, leaveSecond := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, ctx := range []context.Context{first, second} {
		wg.Go(func() {
			_, err := s.Load(ctx, "costs.wasm", costly(), Limits{})
			require.ErrorIs(t, err, context.Canceled)
		})
	}
	refs := func() (n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.codes {
			n += c.refs
		}
		return n
	}
	require.Eventually(t, func() bool { return s.children.slots.held("") == 1 && refs() == 3 }, 5*time.Minute, time.Millisecond)
	leaveFirst()
	require.Eventually(t, func() bool { return refs() == 2 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, s.children.slots.held(""), "another caller still waits for it")
	leaveSecond()
	wg.Wait()
	require.Eventually(t, func() bool { return s.children.slots.held("") == 0 }, 5*time.Minute, time.Millisecond)
	load(t, s, module(nil), Limits{})
}
