package server

import (
	"context"
	"sync"
	"time"
)

// mostRest is how long a rest is at most.
const mostRest = time.Second

// paceShare is in how many times as long what a tenant had comes back.
const paceShare = 4

// paces are how much tenants had lately, and how long one rests that has had much: it has a
// quarter of the time then.
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

// wanted is whether others want what a tenant takes.
type wanted func(tenant string) bool

// paced is work of one kind that goes on by turns, behind which a tenant rests that has had
// much lately, of this work or of another one that is counted together with it.
type paced struct {
	own    *turns // a tenant's: who rests has one
	all    *turns // that all tenants share, of which who rests has none; nil: there are none
	paces  *paces
	wanted wanted // nil: they do
}

// take waits for a turn, which done ends.
func (p *paced) take(ctx context.Context, tenant string) (done func(), err error) {
	end, err := p.begin(ctx, tenant)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func() { end(time.Since(began), p.wanted) }, nil
}

// begin waits for a turn. end ends it, and is told for how long the tenant worked, and
// whether others wanted what that took.
func (p *paced) begin(ctx context.Context, tenant string) (end func(took time.Duration, w wanted), err error) {
	rested, err := p.own.take(ctx, tenant)
	if err != nil {
		return nil, err
	}
	free := func() {}
	if p.all != nil {
		if free, err = p.all.take(ctx, tenant); err != nil {
			rested()
			return nil, err
		}
	}
	return func(took time.Duration, w wanted) {
		free()
		if rest := p.paces.rest(tenant, took, w); rest > 0 {
			time.AfterFunc(rest, rested)
			return
		}
		rested()
	}, nil
}

// rest counts what took so long, and returns how long the tenant is to rest. If it had too
// much, and nobody else wants what it took, it rests not at all, and owes nothing either.
func (p *paces) rest(tenant string, took time.Duration, w wanted) time.Duration {
	rest := p.spend(tenant, took)
	if rest > 0 && w != nil && !w(tenant) {
		p.forgive(tenant)
		return 0
	}
	return rest
}

func (p *paces) spend(tenant string, took time.Duration) time.Duration {
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
	of.left = max(-mostRest/paceShare, min(p.burst, of.left+now.Sub(of.at)/paceShare)-took)
	of.at = now
	return max(0, -of.left*paceShare)
}

func (p *paces) forgive(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := p.tenants[tenant]; of != nil {
		of.left = max(of.left, 0)
	}
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
