package server

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// wait lets somebody wait, and returns when it does.
func (t *turns) wait(ctx context.Context, tenant string, had func(done func())) {
	t.mu.Lock()
	before := t.waits()
	t.mu.Unlock()
	go func() {
		done, err := t.take(ctx, tenant)
		if err == nil {
			had(done)
		}
	}()
	for {
		t.mu.Lock()
		now := t.waits()
		t.mu.Unlock()
		if now > before {
			return
		}
	}
}

func (t *turns) waits() (n int) {
	for _, of := range t.tenants {
		n += len(of.waiting)
	}
	return n
}

func TestTurnsAreShared(t *testing.T) {
	t.Parallel()
	two := newTurns("compiles", 2, 1, 10)
	held, err := two.take(t.Context(), "mallory")
	require.NoError(t, err)
	waits, leave := context.WithCancel(t.Context())
	two.wait(waits, "mallory", func(func()) { panic("a tenant never has all of them") })
	other, err := two.take(t.Context(), "acme")
	require.NoError(t, err)
	leave()
	other()
	held()

	all := newTurns("compiles", 1, 1, 10)
	held, err = all.take(t.Context(), "mallory")
	require.NoError(t, err)
	var order []string
	var wg sync.WaitGroup
	next := func(tenant string) {
		wg.Add(1)
		all.wait(t.Context(), tenant, func(done func()) {
			order = append(order, tenant) // one at a time
			done()
			done() // twice is once
			wg.Done()
		})
	}
	for range 5 {
		next("mallory")
	}
	next("beta")
	next("acme")
	held()
	wg.Wait()
	require.Equal(t, []string{"mallory", "beta", "acme", "mallory", "mallory", "mallory", "mallory"}, order, "who comes late does not wait for all that one tenant wants")
	require.Empty(t, all.tenants, "who has none and wants none is forgotten")
	require.Empty(t, all.order)
	require.Equal(t, 1, all.free)
}

func TestTurnsAreBounded(t *testing.T) {
	t.Parallel()
	all := newTurns("compiles", 1, 1, 2)
	held, err := all.take(t.Context(), "mallory")
	require.NoError(t, err)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := all.take(ctx, "mallory")
		left <- err
	}()
	served := make(chan struct{})
	all.wait(t.Context(), "mallory", func(done func()) { done(); close(served) })
	for all.waiting("mallory") < 2 {
	}
	_, err = all.take(t.Context(), "mallory")
	require.Equal(t, "compiles", problemOf(err).Quota)
	require.NotEmpty(t, problemOf(err).GetHeaders().Get("Retry-After"))
	cancel(gone)
	require.ErrorIs(t, <-left, gone)
	held()
	<-served
	require.Empty(t, all.tenants)
	require.Equal(t, 1, all.free)
}

func (t *turns) waiting(tenant string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of := t.tenants[tenant]; of != nil {
		return len(of.waiting)
	}
	return 0
}
