package sandbox

import (
	"context"
	"sync"
)

// slots is a semaphore that sharers share fairly. A free slot goes to the sharer that
// holds the fewest, then to the one that was served least recently, FIFO within a sharer.
type slots struct {
	max int // of a sharer with a name

	mu      sync.Mutex
	free    int
	served  int                    // slots given so far
	sharers map[string]*slotSharer // that hold or wait for slots
	queue   []*slotWaiter          // FIFO
}

// A slotSharer holds or waits for slots.
type slotSharer struct {
	name          string
	held, waiting int
	last          int // the value of served when it got its last slot
}

// A slotWaiter waits for one slot.
type slotWaiter struct {
	sharer *slotSharer
	ready  chan struct{}
}

// newSlots returns a semaphore of n slots. If there are several, a sharer with a name gets
// all but one of them at most, so that it never keeps all others waiting.
func newSlots(n int) *slots {
	return &slots{max: max(1, n-1), free: n, sharers: map[string]*slotSharer{}}
}

// acquire waits for a slot, which release frees.
func (s *slots) acquire(ctx context.Context) (release func(), err error) {
	name := ""
	if sharer := sharerOf(ctx); sharer != nil {
		name = sharer.Name
	}
	s.mu.Lock()
	of := s.sharers[name]
	if of == nil {
		of = &slotSharer{name: name}
		s.sharers[name] = of
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

// serve gives free slots to waiters. The caller holds mu.
func (s *slots) serve() {
	for s.free > 0 {
		next := -1
		for i, w := range s.queue {
			if (w.sharer.name == "" || w.sharer.held < s.max) && (next < 0 || w.sharer.before(s.queue[next].sharer)) {
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
		w.sharer.waiting--
		w.sharer.held++
		w.sharer.last = s.served
		close(w.ready)
	}
}

// before reports whether the sharer is served before another one.
func (a *slotSharer) before(b *slotSharer) bool {
	if a.held != b.held {
		return a.held < b.held
	}
	return a.last < b.last
}

func (s *slots) release(of *slotSharer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.held--
	s.free++
	s.forget(of)
	s.serve()
}

// leave removes a waiter whose context has ended, or frees its slot if it has one by now.
func (s *slots) leave(w *slotWaiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.queue {
		if other == w {
			s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
			w.sharer.waiting--
			s.forget(w.sharer)
			return
		}
	}
	w.sharer.held--
	s.free++
	s.forget(w.sharer)
	s.serve()
}

// forget drops a sharer that neither holds nor waits for slots. The caller holds mu.
func (s *slots) forget(of *slotSharer) {
	if of.held == 0 && of.waiting == 0 {
		delete(s.sharers, of.name)
	}
}
