package server

import (
	"context"
	"sync"
	"time"
)

// paceShare is in how many times as long what a tenant had comes back.
const paceShare = 4

// paced are turns of a tenant's, behind which one rests that has had much lately: it has a
// quarter of the time then, of each turn that it may have at once. A rest is no longer than
// mostRest.
type paced struct {
	turns *turns
	burst time.Duration // that a tenant has without a rest, of each turn

	mu    sync.Mutex
	paces map[string]*pace
}

// A pace is what a tenant has left of its burst.
type pace struct {
	left time.Duration // below 0: it is ahead of its time
	at   time.Time
}

// newPaced makes turns of which a tenant has so many at once.
func newPaced(what string, each, waiters int, burst time.Duration) *paced {
	return &paced{turns: newTurns(what, 1<<20, each, waiters), burst: burst, paces: map[string]*pace{}}
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
	if rest := p.rest(tenant, took, wanted); rest > 0 {
		time.AfterFunc(rest, end)
		return
	}
	end()
}

// rest counts a turn that took so long, and returns how long the tenant is to rest.
func (p *paced) rest(tenant string, took time.Duration, wanted bool) time.Duration {
	now := time.Now()
	took /= time.Duration(p.turns.each)
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.paces[tenant]
	if of == nil {
		p.forget(now)
		of = &pace{left: p.burst, at: now}
		p.paces[tenant] = of
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
func (p *paced) forget(now time.Time) {
	if len(p.paces) < maxRates {
		return
	}
	for tenant, of := range p.paces {
		if now.Sub(of.at) > p.burst*paceShare {
			delete(p.paces, tenant)
		}
	}
}
