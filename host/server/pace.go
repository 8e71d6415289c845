package server

import (
	"context"
	"sync"
	"time"
)

// paceShare is in how many times as long what a tenant had comes back.
const paceShare = 4

// paces are how much tenants had lately, and how long one rests that has had much: it has a
// quarter of the time then. A rest is no longer than mostRest.
type paces struct {
	burst time.Duration // that a tenant has without a rest
	each  int           // that it may have at once, each with such a burst

	mu      sync.Mutex
	tenants map[string]*pace
}

// A pace is what a tenant has left of its burst.
type pace struct {
	left time.Duration // below 0: it is ahead of its time
	at   time.Time
}

func newPaces(each int, burst time.Duration) *paces {
	return &paces{burst: burst, each: each, tenants: map[string]*pace{}}
}

// paced are turns of a tenant's, behind which one rests that has had much lately.
type paced struct {
	turns *turns
	paces *paces
}

// newPaced makes turns of which a tenant has so many at once.
func newPaced(what string, each, waiters int, burst time.Duration) *paced {
	return &paced{newTurns(what, 1<<20, each, waiters), newPaces(each, burst)}
}

// take waits for a turn, which done ends.
func (p *paced) take(ctx context.Context, tenant string) (done func(), err error) {
	end, err := p.turns.take(ctx, tenant)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func() { p.end(tenant, time.Since(began), true, end) }, nil
}

// end ends a turn that took so long, behind a rest if the tenant is to have one. It has none
// where nobody else wants its place.
func (p *paced) end(tenant string, took time.Duration, wanted bool, end func()) {
	if rest := p.paces.rest(tenant, took, wanted); rest > 0 {
		time.AfterFunc(rest, end)
		return
	}
	end()
}

// rest counts what took so long, and returns how long the tenant is to rest: where nobody
// else wanted its place not at all, and then it owes nothing either.
func (p *paces) rest(tenant string, took time.Duration, wanted bool) time.Duration {
	now := time.Now()
	took /= time.Duration(p.each)
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.tenants[tenant]
	if of == nil {
		p.forget(now)
		of = &pace{left: p.burst, at: now}
		p.tenants[tenant] = of
	}
	least := -mostRest / paceShare
	if !wanted {
		least = 0
	}
	of.left = max(least, min(p.burst, of.left+now.Sub(of.at)/paceShare)-took)
	of.at = now
	return max(0, -of.left*paceShare)
}

// forget drops tenants that have all of their burst again, so that the table has a bound.
func (p *paces) forget(now time.Time) {
	if len(p.tenants) < maxRates {
		return
	}
	for tenant, of := range p.tenants {
		if now.Sub(of.at) > p.burst*paceShare {
			delete(p.tenants, tenant)
		}
	}
}
