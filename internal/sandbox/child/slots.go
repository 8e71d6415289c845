package child

import (
	"context"
	"sync"
)

// slots is a semaphore that tenants share fairly. A free slot goes to the waiting tenant that holds
// the fewest, and among equals to the one that was served least recently. A tenant that requests a
// slot while it neither holds nor waits for one counts as served just before the tenant that was
// served last, so that no waiting tenant starves. A tenant with a name that holds the maximum is
// skipped. Within a tenant the order is FIFO.
type slots struct {
	max int // maximum number of slots of a named tenant

	mu      sync.Mutex
	free    int
	served  int                    // slots granted so far
	tenants map[string]*slotTenant // tenants that hold or wait for slots
	queue   []*slotWaiter          // FIFO
}

// A slotTenant holds or waits for slots.
type slotTenant struct {
	name          string
	held, waiting int
	last          int // slots.served when it last got a slot; for a new tenant, slots.served-1 at its first request
}

// A slotWaiter waits for one slot.
type slotWaiter struct {
	tenant *slotTenant
	ready  chan struct{}
}

// newSlots returns a semaphore of n slots. If there are several, a tenant with a name gets
// at most all but one, so that it never blocks all others.
func newSlots(n int) *slots {
	return &slots{max: max(1, n-1), free: n, tenants: map[string]*slotTenant{}}
}

// acquire waits for a slot for the tenant with the given name, which may be empty.
func (s *slots) acquire(ctx context.Context, name string) (release func(), err error) {
	s.mu.Lock()
	of := s.tenants[name]
	if of == nil {
		of = &slotTenant{name: name, last: s.served - 1}
		s.tenants[name] = of
	}
	w := &slotWaiter{of, make(chan struct{})}
	of.waiting++
	s.queue = append(s.queue, w)
	s.serve()
	s.mu.Unlock()

	select {
	case <-w.ready:
	case <-ctx.Done():
		s.leave(w)
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() { s.release(of) }), nil
}

// serve grants free slots to waiters. The caller holds mu.
func (s *slots) serve() {
	for s.free > 0 {
		next := -1
		for i, w := range s.queue {
			if (w.tenant.name == "" || w.tenant.held < s.max) && (next < 0 || w.tenant.before(s.queue[next].tenant)) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := s.queue[next]
		s.queue = append(s.queue[:next:next], s.queue[next+1:]...)
		s.free--
		s.served++
		w.tenant.waiting--
		w.tenant.held++
		w.tenant.last = s.served
		close(w.ready)
	}
}

// before reports whether a is served before b.
func (a *slotTenant) before(b *slotTenant) bool {
	if a.held != b.held {
		return a.held < b.held
	}
	return a.last < b.last
}

func (s *slots) release(of *slotTenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.held--
	s.free++
	s.forget(of)
	s.serve()
}

// leave removes a waiter whose context is done, or frees the slot that the waiter got in the
// meantime.
func (s *slots) leave(w *slotWaiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.queue {
		if other == w {
			s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
			w.tenant.waiting--
			s.forget(w.tenant)
			return
		}
	}
	w.tenant.held--
	s.free++
	s.forget(w.tenant)
	s.serve()
}

// forget removes a tenant that neither holds nor waits for slots. The caller holds mu.
func (s *slots) forget(of *slotTenant) {
	if of.held == 0 && of.waiting == 0 {
		delete(s.tenants, of.name)
	}
}

// inUse returns the number of slots that are held.
func (s *slots) inUse() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.tenants {
		n += of.held
	}
	return n
}
