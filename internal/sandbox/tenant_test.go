package sandbox

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSharesOfMemory checks that a tenant holds no more than what is left to all others, and
// that waiting for its share does not block others.
func TestSharesOfMemory(t *testing.T) {
	t.Parallel()
	a := &admission{total: 100, free: 100}
	as := func(name string) context.Context { return WithTenant(t.Context(), &Tenant{Name: name}) }
	take := func(name string, bytes int64) func() {
		t.Helper()
		_, release, err := a.reserve(as(name), []int64{bytes})
		require.NoError(t, err)
		return release
	}
	first := take("mallory", 10)
	for range 4 {
		take("mallory", 10)
	}
	served := make(chan func(), 1)
	go func() { served <- take("mallory", 10) }()
	for a.waits() == 0 {
	}
	take("beta", 10)
	n, release, err := a.reserve(WithReservation(as("beta")), []int64{10, 20, 30})
	require.NoError(t, err, "nested work does not fail because another one waits for its share")
	require.Zero(t, n, "more would exceed its share")
	release()
	_, release, err = a.reserve(WithReservation(as("mallory")), []int64{10})
	require.NoError(t, err, "nor does it wait for its share: it would wait for itself")
	release()
	take("acme", 30) // a first reservation may take all that is free
	require.Equal(t, int64(10), a.left())
	select {
	case <-served:
		t.Fatal("mallory holds half of the memory and got more")
	default:
	}
	_, unnamed, err := a.reserve(t.Context(), []int64{10})
	require.NoError(t, err)
	unnamed()
	first()
	require.Len(t, served, 0)
	a.release("beta", 10)
	a.release("acme", 30)
	(<-served)()
	require.Equal(t, int64(60), a.left())
}

// waits returns the number of waiting requests.
func (a *admission) waits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// left returns the free memory.
func (a *admission) left() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.free
}
