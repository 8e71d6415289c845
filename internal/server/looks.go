package server

import (
	"context"
	"net/http"
)

// What tenants look at (lists, histories) is read for one of a tenant's requests at a time,
// and of all tenants on fewer connections than the store has: runs and keys are read on the
// same ones.
const (
	looksMost    = 3
	looksWaiters = 256
	statesMost   = 2 // requests for the state of a run
)

// newStates returns the semaphore of requests for the state of a run: one of a tenant at a
// time, which waits for no list.
func newStates() *turns {
	return newTurns("requests for the state of a run", statesMost, 1, looksWaiters)
}

// newLooks are turns of those who look.
func newLooks(work *paces, others wanted) *paced {
	const what = "reading requests"
	return &paced{own: newTurns(what, 1<<20, 1, looksWaiters), all: newTurns(what, looksMost, 1, 1), paces: work, wanted: others}
}

// look calls fn for a request, when it may read, if that is all that it does.
func (s *Server) look(ctx context.Context, c *Caller, r *Route, fn func() error) error {
	if c == nil || r.Method != http.MethodGet {
		return fn()
	}
	take := s.looks.take
	if r.Control {
		take = s.states.take
	}
	done, err := take(ctx, c.Key.Tenant)
	if err != nil {
		return err
	}
	defer done()
	return fn()
}
