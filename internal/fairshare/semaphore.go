package fairshare

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Unlimited is a number of slots that is never reached.
const Unlimited = 1 << 30

// A Semaphore has a number of slots. A free slot goes to the waiting tenant that holds the fewest,
// and among equals to the one that was served least recently. A tenant that requests a slot while it
// neither holds nor waits for one counts as served just before the tenant that was served last, so
// that no waiting tenant starves. The callers of one tenant get slots in the order of their arrival.
type Semaphore struct {
	perTenant int
	queue     int
	slots     int
	exempt    map[string]bool // tenants that may hold all slots

	mu      sync.Mutex
	free    int
	served  int                // number of slots granted so far
	tenants map[string]*tenant // tenants that hold or wait for slots
	waiting []*tenant          // tenants that wait for slots
}

// A tenant holds or waits for slots of a semaphore.
type tenant struct {
	name  string
	held  int
	last  int             // Semaphore.served when the tenant was last served
	queue []chan struct{} // FIFO; closed when the slot is granted
}

// before reports whether t is served before o.
func (t *tenant) before(o *tenant) bool {
	if t.held != o.held {
		return t.held < o.held
	}
	return t.last < o.last
}

// A QueueFullError reports that a tenant's queue is full.
type QueueFullError struct {
	Queue int // maximum length of a tenant's queue
}

func (e *QueueFullError) Error() string {
	return fmt.Sprintf("acquire slot: %d callers of this tenant wait already; try again later", e.Queue)
}

// NewSemaphore returns a semaphore with a number of slots. A tenant holds at most perTenant slots, so that no tenant
// can hold all slots if perTenant is smaller than slots. At most queue callers of a tenant wait at once.
func NewSemaphore(slots, perTenant, queue int) *Semaphore {
	return &Semaphore{perTenant: perTenant, queue: queue, slots: slots, free: slots, tenants: map[string]*tenant{}}
}

// Exempt lets the tenant with the given name hold all slots. It must be called before Acquire.
func (s *Semaphore) Exempt(name string) {
	if s.exempt == nil {
		s.exempt = map[string]bool{}
	}
	s.exempt[name] = true
}

// InUse returns the number of slots that are held. Released slots do not count, even if they count
// as held by their tenant until a delay has passed.
func (s *Semaphore) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots - s.free
}

// Acquire waits for a slot. It fails with a [*QueueFullError] if it would have to wait and the
// tenant's queue is full, or with the cause of ctx if ctx is done first.
//
// release returns the slot. Other tenants can acquire the slot at once. Until delay has passed,
// the slot also counts as one that the tenant itself holds. Further calls of release have no
// effect.
func (s *Semaphore) Acquire(ctx context.Context, name string) (release func(delay time.Duration), err error) {
	t, ready, err := s.enqueue(name)
	if err != nil {
		return nil, err
	}
	select {
	case <-ready:
	case <-ctx.Done():
		s.leave(t, ready)
		return nil, context.Cause(ctx)
	}
	var once sync.Once
	return func(delay time.Duration) { once.Do(func() { s.release(t, delay) }) }, nil
}

// enqueue adds a waiter, and grants it a slot at once if possible.
func (s *Semaphore) enqueue(name string) (t *tenant, ready chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = s.tenants[name]
	if t == nil {
		t = &tenant{name: name, last: s.served - 1}
		s.tenants[name] = t
	}
	if len(t.queue) >= s.queue && (s.free == 0 || !s.allows(t)) {
		s.forget(t)
		return nil, nil, &QueueFullError{s.queue}
	}
	ready = make(chan struct{})
	if t.queue = append(t.queue, ready); len(t.queue) == 1 {
		s.waiting = append(s.waiting, t)
	}
	s.serve()
	return t, ready, nil
}

// allows reports whether t may hold one more slot.
func (s *Semaphore) allows(t *tenant) bool { return t.held < s.perTenant || s.exempt[t.name] }

// serve grants free slots to waiting tenants that may hold more. The caller holds mu.
func (s *Semaphore) serve() {
	for s.free > 0 {
		next := -1
		for i, t := range s.waiting {
			if s.allows(t) && (next < 0 || t.before(s.waiting[next])) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		t := s.waiting[next]
		close(t.queue[0])
		t.queue = t.queue[1:]
		t.held++
		s.free--
		s.served++
		t.last = s.served
		s.waiting = slices.Delete(s.waiting, next, next+1)
		if len(t.queue) > 0 {
			s.waiting = append(s.waiting, t)
		}
	}
}

// release frees a slot for other tenants, and after delay for t.
func (s *Semaphore) release(t *tenant, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if delay > 0 {
		time.AfterFunc(delay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.drop(t)
		})
		s.serve()
		return
	}
	s.drop(t)
}

// drop reduces the number of slots that t holds by one, and then grants free slots. The caller holds
// mu.
func (s *Semaphore) drop(t *tenant) {
	t.held--
	s.forget(t)
	s.serve()
}

// leave removes a waiter, or releases the slot that it was granted in the meantime.
func (s *Semaphore) leave(t *tenant, ready chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(t.queue, ready)
	if i < 0 {
		s.free++
		s.drop(t)
		return
	}
	if t.queue = slices.Delete(t.queue, i, i+1); len(t.queue) == 0 {
		s.waiting = slices.DeleteFunc(s.waiting, func(o *tenant) bool { return o == t })
	}
	s.forget(t)
}

// forget drops a tenant that neither holds nor waits for slots. The caller holds mu.
func (s *Semaphore) forget(t *tenant) {
	if t.held == 0 && len(t.queue) == 0 {
		delete(s.tenants, t.name)
	}
}
