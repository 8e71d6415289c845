package server

import (
	"context"
	"runtime"
	"time"

	"github.com/agent-runner/agent-runner/host/sandbox"
)

// Guests that run for longer than a moment have turns of a processor. Whose work has had
// many of them lately rests between two, if other tenants wanted the processor meanwhile: it
// has a quarter of a tenant's half of the processors then, and all of that half where nobody
// else wants it. Without that, who calculates without end has one of two processors at each
// moment, and each short thing that others do waits for one of its turns.
//
// It is one account for all that a tenant keeps processors busy with for long: guests, large
// bodies that are read, lists that are looked up. Each alone may have all of it, but what
// does all at once has no more.
const (
	workBurst = 250 * time.Millisecond // that a tenant's work has without a rest
	crowded   = 50 * time.Microsecond  // what a turn that others wanted is waited for
)

// newWork is that account, of tenants who have so many processors at once.
func newWork(each int) *paces { return newPaces(each, workBurst) }

// guests give tenants' guests their turns.
type guests struct {
	paced
	besides func(tenant string) bool // whether there are other tenants
	yield   func() time.Duration     // lets others have the processor, and tells how long they did
}

func newGuests(processors *turns, work *paces, besides func(tenant string) bool) *guests {
	own := newTurns(processors.what, 1<<20, processors.each, processors.waiters)
	return &guests{paced{own: own, all: processors, paces: work}, besides, yield}
}

// othersWait reports whether other tenants want a processor, and lets them have it.
func (s *Server) othersWait(tenant string) bool {
	return s.underway.besides(tenant) && yield() > crowded
}

// yield lets all others who want a processor have it first.
func yield() time.Duration {
	asked := time.Now()
	// Whoever gets a turn from another guest is run in that one's place, before all that
	// Go has in its common queue: what comes from the disk, say, which would wait for
	// dozens of turns. So it goes to the end of that queue first.
	runtime.Gosched()
	standBack() // threads of this process wait in the system's queue, too
	return time.Since(asked)
}

// sharer is a tenant as those see it who share memory and processors.
func (g *guests) sharer(tenant string) *sandbox.Sharer {
	return &sandbox.Sharer{Name: tenant, Turn: func(ctx context.Context) (func(), error) { return g.turn(ctx, tenant) }}
}

// turn waits for a turn of the tenant's, which done ends.
func (g *guests) turn(ctx context.Context, tenant string) (done func(), err error) {
	end, err := g.begin(ctx, tenant)
	if err != nil {
		return nil, err
	}
	waited := g.yield()
	began := time.Now()
	return func() {
		end(time.Since(began), func(string) bool { return waited > crowded && g.besides(tenant) })
	}, nil
}
