package server

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host/sandbox"
)

// Guests that run for longer than a moment have turns of a processor. Whose guests have
// had many of them lately rests between two, if others wanted the processor meanwhile: it
// has a quarter of one then, and all of one where nobody else wants it. Without that, who
// calculates without end is there at each moment, as a tenant's half of the processors,
// which is one of two, and each short thing that others do waits for one of its turns.
const (
	guestBurst = 250 * time.Millisecond // that a tenant's guests have without a rest
	guestShare = 4                      // it comes back in so many times as long
	guestRest  = 3                      // a rest is so many times as long as the turn
	crowded    = 50 * time.Microsecond  // what a turn that others wanted is waited for
)

// guests give tenants' guests their turns.
type guests struct {
	processors *turns
	own        *turns // a tenant's: who rests has one of its own, but no processor
	paces      *paces
	yield      func() time.Duration // lets others have the processor, and tells how long they did
}

func newGuests(processors *turns) *guests {
	return &guests{processors, newTurns(processors.what, 1<<20, processors.each, processors.waiters), newPaces(), yield}
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
	end, err := g.own.take(ctx, tenant)
	if err != nil {
		return nil, err
	}
	free, err := g.processors.take(ctx, tenant)
	if err != nil {
		end()
		return nil, err
	}
	wanted := g.yield() > crowded
	began := time.Now()
	return func() {
		free()
		if rest := g.paces.after(tenant, time.Since(began)); wanted && rest > 0 {
			time.AfterFunc(rest, end)
			return
		}
		end()
	}, nil
}

// paces are how much tenants' guests have had of the processors lately.
type paces struct {
	mu      sync.Mutex
	tenants map[string]*pace
}

// A pace is what a tenant has left of its burst.
type pace struct {
	left time.Duration
	at   time.Time
}

func newPaces() *paces { return &paces{tenants: map[string]*pace{}} }

// after counts a turn that took so long, and returns how long the tenant is to rest
// where others want the processor.
func (p *paces) after(tenant string, took time.Duration) (rest time.Duration) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.tenants[tenant]
	if of == nil {
		p.forget(now)
		of = &pace{left: guestBurst, at: now}
		p.tenants[tenant] = of
	}
	of.left = min(guestBurst, of.left+now.Sub(of.at)/guestShare)
	of.at = now
	if took <= of.left {
		of.left -= took
		return 0
	}
	of.left = 0
	return min(guestRest*took, mostRest)
}

// forget drops tenants that have all of their burst again, so that the table has a bound.
func (p *paces) forget(now time.Time) {
	if len(p.tenants) < maxRates {
		return
	}
	for tenant, of := range p.tenants {
		if now.Sub(of.at) > guestBurst*guestShare {
			delete(p.tenants, tenant)
		}
	}
}
