package sandbox

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nobody with a name has more than what is left to all others, and who waits for its
// share keeps nobody else waiting.
func TestSharesOfMemory(t *testing.T) {
	t.Parallel()
	a := &admission{all: 100, free: 100}
	as := func(name string) context.Context { return Sharing(t.Context(), &Sharer{Name: name}) }
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
	n, release, err := a.reserve(Holding(as("beta")), []int64{10, 20, 30})
	require.NoError(t, err, "what is within other work does not fail because somebody waits for a share")
	require.Zero(t, n, "more would be more than its share")
	release()
	_, release, err = a.reserve(Holding(as("mallory")), []int64{10})
	require.NoError(t, err, "nor for a share: what holds memory would wait for itself")
	release()
	take("acme", 30) // the first of it is what it needs
	require.Equal(t, int64(10), a.left())
	select {
	case <-served:
		t.Fatal("mallory has half of it, and is given more")
	default:
	}
	_, unnamed, err := a.reserve(t.Context(), []int64{10})
	require.NoError(t, err)
	unnamed()
	first()
	require.Len(t, served, 0)
	a.give("beta", 10)
	a.give("acme", 30)
	(<-served)()
	require.Equal(t, int64(60), a.left())
}

func (a *admission) waits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

func (a *admission) left() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.free
}
