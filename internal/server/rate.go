package server

import (
	"sync"
	"time"
)

// maxRates is how many tenants are counted before those that are idle are
// forgotten.
const maxRates = 10_000

// rates are the requests of tenants: each has a minute's worth at once at most,
// and gets it back evenly over a minute. They are not those of keys: a tenant
// makes as many of these as it likes.
type rates struct {
	now     func() time.Time
	mu      sync.Mutex
	tenants map[string]*bucket
}

// A bucket is what a tenant has left.
type bucket struct {
	left float64
	at   time.Time
}

func newRates(now func() time.Time) *rates { return &rates{now: now, tenants: map[string]*bucket{}} }

// take counts a request; perMinute 0 is no limit.
func (r *rates) take(tenant string, perMinute int64) error {
	if perMinute <= 0 {
		return nil
	}
	now, rate := r.now(), float64(perMinute)/60
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.tenants[tenant]
	if b == nil {
		r.forget(now)
		b = &bucket{left: float64(perMinute), at: now}
		r.tenants[tenant] = b
	}
	b.left = min(float64(perMinute), b.left+max(0, now.Sub(b.at).Seconds())*rate) // a clock that was set back takes nothing away
	b.at = now
	if b.left >= 1 {
		b.left--
		return nil
	}
	wait := time.Duration((1 - b.left) / rate * float64(time.Second))
	return quotaProblem("requests_per_minute", wait, "tenant %s may send %d requests a minute", tenant, perMinute)
}

// forget drops tenants that are full again, so that the table has a bound.
func (r *rates) forget(now time.Time) {
	if len(r.tenants) < maxRates {
		return
	}
	for tenant, b := range r.tenants {
		if now.Sub(b.at).Abs() > time.Minute {
			delete(r.tenants, tenant)
		}
	}
}
