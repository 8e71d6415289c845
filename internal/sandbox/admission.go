package sandbox

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/agent-runner/agent-runner/internal/sandbox/text"
)

// Reserve waits until the given number of bytes of Options.MemoryBytes are free, and takes them. A caller reserves
// the maximum that its work can use (the sum of [Image.WorstCase] of all instances that it may have at once) before
// it makes the first instance, so that no caller waits for memory while it holds some. Waiting callers are served in
// order, so that small reservations do not starve large ones. A named tenant, see [WithTenant], never holds more than
// half of the memory. If the tenant already holds memory, a further reservation waits until granting it leaves at
// least as much memory free as the tenant then holds. A reservation of at most half of the memory therefore never
// waits for one other tenant alone.
//
// Reserve fails at once with a [*TooLargeError] if the reservation can never succeed, and with a [*NoRoomError] if
// ctx belongs to work that already holds memory and the reservation would have to wait. Other errors are ctx's cause
// and ErrClosed. The caller calls release when the work is done; further calls of release have no effect.
func (s *Sandbox) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	_, release, err = s.ReserveOneOf(ctx, []int64{bytes})
	return release, err
}

// ReserveOneOf is like Reserve, but for work that can use different sizes, in ascending order. It waits until it can
// take the first size. It then takes the largest size that leaves at least as much memory free as it takes, or the
// first size if there is none. It returns the index of the size that it took. Its errors are those of Reserve.
func (s *Sandbox) ReserveOneOf(ctx context.Context, sizes []int64) (n int, release func(), err error) {
	return s.admission.reserve(ctx, sizes)
}

// WithReservation returns a context for work that holds a reservation. A further reservation with this context does
// not wait, because the free memory could depend on other work that waits for this work.
func WithReservation(ctx context.Context) context.Context {
	return context.WithValue(ctx, reservationKey{}, true)
}

type reservationKey struct{}

// holdsMemory reports whether ctx belongs to work that holds memory: work with a reservation, or an
// import that a guest has called.
func holdsMemory(ctx context.Context) bool {
	return ctx.Value(reservationKey{}) != nil || ctx.Value(instanceKey{}) != nil
}

// TooLargeError reports a reservation of Bytes bytes, where its tenant may hold only All bytes.
type TooLargeError struct {
	Bytes, All int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf(
		"needs up to %s of memory for its modules, but can use %s; lower the memory limits of its modules, or raise the host's",
		text.Bytes(e.Bytes),
		text.Bytes(e.All),
	)
}

// NoRoomError reports that there was not enough free memory for a reservation of work that already holds memory
// and therefore must not wait for more. Bytes is the size of the reservation. Free is how many bytes its tenant could
// take, and All how many the tenant may hold.
type NoRoomError struct {
	Bytes, Free, All int64
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf(
		"needs up to %s of memory for its modules; %s of the %s that the host may use is free, and what runs within another run cannot wait for more",
		text.Bytes(e.Bytes),
		text.Bytes(e.Free),
		text.Bytes(e.All),
	)
}

// Retryable reports that another attempt may succeed.
func (*NoRoomError) Retryable() bool { return true }

// ImageRoomError reports that there is no memory for another image, which is the memory that the instances of an
// [Image] start with. With an image of Bytes bytes, the images of all modules would exceed All bytes, the value of
// Options.ImageBytes, or the images of the tenant would exceed the tenant's share. Another attempt may succeed after
// other images have been closed.
type ImageRoomError struct {
	Bytes, All int64
}

func (e *ImageRoomError) Error() string {
	return fmt.Sprintf(
		"the initial memory of its instances takes %s, for which there is no room beside other images within %s for all and the tenant's share of it; close unused agents and modules, or let this one start with less memory",
		text.Bytes(e.Bytes),
		text.Bytes(e.All),
	)
}

// Retryable reports that another attempt may succeed.
func (*ImageRoomError) Retryable() bool { return true }

// WorstCase returns the maximum memory in bytes that one instance can use: its linear
// memory, its stack, and overhead.
func (im *Image) WorstCase() int64 {
	const overhead = 1 << 20 // tables within their limit, and wazero's own data
	_, memory := im.Memory()
	return memory + 2*im.limits.StackBytes + overhead // a stack grows by doubling
}

// admission grants memory in the order of the requests. Requests of a tenant that has reached its
// share do not block others.
type admission struct {
	mu      sync.Mutex
	total   int64
	free    int64            // guarded by mu
	held    map[string]int64 // bytes held by named tenants; guarded by mu
	waiting []*reservation   // guarded by mu
	closed  bool             // guarded by mu
}

// reservation is a request that waits. Its channel is closed when it is granted, or when the
// sandbox is closed.
type reservation struct {
	sizes   []int64
	tenant  string // may be empty
	nested  bool   // within work that holds memory, so that it must not wait for its share
	granted bool   // guarded by admission.mu
	n       int    // index in sizes of the granted size; guarded by admission.mu
	done    chan struct{}
}

// reserve implements [Sandbox.ReserveOneOf].
func (a *admission) reserve(ctx context.Context, sizes []int64) (int, func(), error) {
	if ctx.Err() != nil {
		return 0, nil, context.Cause(ctx)
	}
	smallest, tenant := sizes[0], tenantOf(ctx).Name
	a.mu.Lock()
	limit := a.share(tenant)
	left := min(a.free, limit-a.held[tenant])
	switch {
	case a.closed:
		a.mu.Unlock()
		return 0, nil, ErrClosed
	case smallest > limit:
		a.mu.Unlock()
		return 0, nil, &TooLargeError{Bytes: smallest, All: limit}
	case holdsMemory(ctx) && (a.contended() || smallest > left):
		a.mu.Unlock()
		return 0, nil, &NoRoomError{Bytes: smallest, Free: left, All: limit}
	}
	r := &reservation{sizes: sizes, tenant: tenant, nested: holdsMemory(ctx), done: make(chan struct{})}
	a.waiting = append(a.waiting, r)
	a.serve()
	a.mu.Unlock()

	select {
	case <-r.done:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case r.granted:
		return r.n, sync.OnceFunc(func() { a.release(r.tenant, sizes[r.n]) }), nil
	case a.closed:
		return 0, nil, ErrClosed
	default:
		a.waiting = slices.DeleteFunc(a.waiting, func(o *reservation) bool { return o == r })
		a.serve() // later requests may have waited only for this request
		return 0, nil, context.Cause(ctx)
	}
}

// serve grants waiting requests in order. A request of a tenant that has reached its share does not
// block later ones. The caller holds mu.
func (a *admission) serve() {
	for i := 0; i < len(a.waiting); {
		r := a.waiting[i]
		if !r.nested && !a.withinShare(r.tenant, r.sizes[0]) {
			i++
			continue
		}
		if r.sizes[0] > a.free {
			return
		}
		a.waiting = slices.Delete(a.waiting, i, i+1)
		for r.n+1 < len(r.sizes) && r.sizes[r.n+1] <= a.free/2 && a.withinShare(r.tenant, r.sizes[r.n+1]) {
			r.n++
		}
		a.take(r.tenant, r.sizes[r.n])
		r.granted = true
		close(r.done)
	}
}

// contended reports whether a request waits for free memory, not only for its share. The
// caller holds mu.
func (a *admission) contended() bool {
	return slices.ContainsFunc(a.waiting, func(r *reservation) bool { return a.withinShare(r.tenant, r.sizes[0]) })
}

// share returns the maximum memory in bytes that a tenant can hold: half of the total for one
// with a name, and the total for one without.
func (a *admission) share(tenant string) int64 {
	if tenant == "" {
		return a.total
	}
	return a.total / 2
}

// withinShare reports whether a tenant may take the given number of bytes. Afterwards, the tenant
// must hold no more than is free or, if it held nothing before, no more than half of the total. A
// tenant without a name is not restricted. The caller holds mu.
func (a *admission) withinShare(tenant string, bytes int64) bool {
	held := a.held[tenant]
	return tenant == "" || held == 0 && bytes <= a.share(tenant) || held+bytes <= a.free-bytes
}

// take moves bytes from the free memory to the tenant. The caller holds mu.
func (a *admission) take(tenant string, bytes int64) {
	a.free -= bytes
	if tenant == "" {
		return
	}
	if a.held == nil {
		a.held = map[string]int64{}
	}
	a.held[tenant] += bytes
}

// try takes bytes for the tenant if they are free and within its share, and reports whether it did. It never waits.
func (a *admission) try(tenant string, bytes int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes > a.free || !a.withinShare(tenant, bytes) {
		return false
	}
	a.take(tenant, bytes)
	return true
}

// release returns bytes that a tenant took.
func (a *admission) release(tenant string, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free += bytes
	if tenant != "" {
		if a.held[tenant] -= bytes; a.held[tenant] <= 0 {
			delete(a.held, tenant)
		}
	}
	if !a.closed {
		a.serve()
	}
}

// close makes all waiting and later requests fail with ErrClosed.
func (a *admission) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, r := range a.waiting {
		close(r.done)
	}
	a.waiting = nil
}
