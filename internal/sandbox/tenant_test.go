package sandbox

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSharesOfMemory checks that a tenant that holds memory gets more only if it then holds no more
// than is free, and that waiting for its share does not block others.
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
	_, _, err = a.reserve(WithReservation(as("mallory")), []int64{10})
	var noRoom *NoRoomError
	require.ErrorAs(t, err, &noRoom, "nor does it wait for its share: it would wait for itself")
	take("acme", 30) // a first reservation may take half of all memory
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

// TestOneTenantLeavesHalf checks that no reservations of one tenant, nested or not, granted or
// waiting, keep a reservation of another tenant waiting.
func TestOneTenantLeavesHalf(t *testing.T) {
	t.Parallel()
	const total, half = 1000, 500
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			ctx, cancel := context.WithCancel(t.Context())
			mallory := WithTenant(ctx, &Tenant{Name: "mallory"})
			acme := WithTenant(ctx, &Tenant{Name: "acme"})
			a := &admission{total: total, free: total}
			held := make(chan func(), 1000)
			for range 200 {
				size := random.Int64N(half)
				sizes := []int64{size, 2 * size, 3 * size}[:1+random.IntN(3)]
				work := mallory
				if random.IntN(2) == 0 {
					work = WithReservation(mallory)
				}
				go func() {
					if _, release, err := a.reserve(work, sizes); err == nil {
						held <- release
					}
				}()
				synctest.Wait()
				if len(held) > 0 && random.IntN(3) == 0 {
					(<-held)()
				}
				require.GreaterOrEqual(t, a.left(), int64(half))
				_, release, err := a.reserve(acme, []int64{half})
				require.NoError(t, err)
				release()
			}
			cancel()
		})
	}
}

// TestShareOfOneReservation checks that one reservation can take at most half of the memory for a
// tenant with a name, and all of it without tenants.
func TestShareOfOneReservation(t *testing.T) {
	t.Parallel()
	a := &admission{total: 1000, free: 1000}
	_, _, err := a.reserve(WithTenant(t.Context(), &Tenant{Name: "mallory"}), []int64{501})
	require.ErrorContains(t, err, "but can use 500 bytes")
	_, release, err := a.reserve(t.Context(), []int64{1000})
	require.NoError(t, err, "without tenants all of it can be used")
	release()
}

// waits returns the number of waiting requests.
func (a *admission) waits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// left returns the free memory in bytes.
func (a *admission) left() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.free
}

// TestWaitingForProcessor checks that a guest waits for a processor while others use them all, and that
// the time does not count as the guest's. It is not parallel, because it takes all processors.
func TestWaitingForProcessor(t *testing.T) {
	const hookTime = 500 * time.Millisecond
	in := guest(t, InstanceConfig{}, Limits{HookTime: hookTime, Fuel: 50_000_000})
	for range cap(processors) {
		processors <- struct{}{}
	}
	done := make(chan error, 1)
	go func() {
		_, err := in.Call(t.Context(), "loop")
		done <- err
	}()
	select {
	case err := <-done:
		require.Fail(t, "the guest did not wait", "%v", err)
	case <-time.After(hookTime + 100*time.Millisecond):
	}
	for range cap(processors) {
		<-processors
	}
	var fault *FaultError
	require.ErrorAs(t, <-done, &fault)
	require.Equal(t, FaultFuel, fault.Kind)
}
