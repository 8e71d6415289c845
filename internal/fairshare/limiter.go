package fairshare

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxIdle is the number of buckets that makes get drop full buckets before it adds another one.
const maxIdle = 10_000

// buckets holds a token bucket for each tenant.
type buckets struct {
	mu sync.Mutex
	of map[string]*rate.Limiter
}

// get returns a tenant's bucket, and sets its limit and burst. A new bucket is full.
func (b *buckets) get(tenant string, now time.Time, limit rate.Limit, burst int) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of[tenant]
	switch {
	case l == nil:
		if len(b.of) >= maxIdle {
			b.forget(now)
		}
		if b.of == nil {
			b.of = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(limit, burst)
		b.of[tenant] = l
	case l.Limit() != limit || l.Burst() != burst:
		l.SetLimitAt(now, limit)
		l.SetBurstAt(now, burst)
	}
	return l
}

// forget drops full buckets, which hold no information: a new bucket is full, too. The caller
// holds mu.
func (b *buckets) forget(now time.Time) {
	for tenant, l := range b.of {
		if l.TokensAt(now) >= float64(l.Burst()) {
			delete(b.of, tenant)
		}
	}
}

// A RateLimiter limits the requests that each tenant sends to this process.
type RateLimiter struct {
	now     func() time.Time
	buckets buckets
}

// NewRateLimiter returns a rate limiter with a clock, which must be monotonic, as [time.Now]
// is.
func NewRateLimiter(now func() time.Time) *RateLimiter { return &RateLimiter{now: now} }

// Allow reports whether a tenant may send a request now, and counts the request if so. A tenant can send perMinute
// requests at once; its bucket refills evenly over a minute. If perMinute is zero or negative, requests are
// unlimited. If the request is not allowed, retry is the time until a request is allowed.
func (r *RateLimiter) Allow(tenant string, perMinute int64) (retry time.Duration, ok bool) {
	if perMinute <= 0 {
		return 0, true
	}
	now, limit := r.now(), rate.Limit(float64(perMinute)/60)
	l := r.buckets.get(tenant, now, limit, int(min(perMinute, math.MaxInt32)))
	if l.AllowN(now, 1) {
		return 0, true
	}
	return time.Duration((1 - l.TokensAt(now)) / float64(limit) * float64(time.Second)), false
}
