package server

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// guests give tenants' guests that run for longer than a moment turns of a processor. Whose
// work has had many of them lately rests between two, if other tenants wanted the processor
// meanwhile: it has a quarter of a tenant's half of the processors then, and all of that half
// where nobody else wants it. Without that, who calculates without end has one of two
// processors at each moment, and each short thing that others do waits for one of its turns.
type guests struct {
	paced
	yield func() time.Duration // lets others have the processor, and tells how long they did
}

// newGuests makes them; others is whether there are other tenants.
func newGuests(processors *turns, work *paces, others wanted) *guests {
	own := newTurns(processors.what, 1<<20, processors.each, processors.waiters)
	return &guests{paced{own: own, all: processors, paces: work, wanted: others}, yield}
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
		end(time.Since(began), func(tenant string) bool { return waited > crowded && g.wanted(tenant) })
	}, nil
}
