package fairshare

import (
	"time"

	"golang.org/x/time/rate"
)

// MaxDelay caps one delay of a [Budget].
const MaxDelay = time.Second

// A Budget limits the time that the work of each tenant takes, such as processor time. It is a
// token bucket of microseconds with a deficit: the time is known only when the work is done.
type Budget struct {
	limit   rate.Limit // microseconds a second
	burst   int        // microseconds
	buckets buckets
}

// NewBudget returns a budget of a share of the time: 0.25 is a quarter of one processor. A tenant
// that used little can use burst at once.
func NewBudget(share float64, burst time.Duration) *Budget {
	return &Budget{limit: rate.Limit(share * 1e6), burst: int(burst.Microseconds())}
}

// Charge deducts what a tenant's work took, and returns the delay of its next work that keeps
// it within its share. The delay is zero while the burst lasts, and at most [MaxDelay]: Charge drops
// a deficit that would need more.
func (b *Budget) Charge(tenant string, took time.Duration) (delay time.Duration) {
	now := time.Now()
	l := b.buckets.get(tenant, now, b.limit, b.burst)
	maxDeficit := float64(b.limit) * MaxDelay.Seconds()
	cost := int(min(float64(took.Microseconds()), l.TokensAt(now)+maxDeficit))
	for ; cost > 0; cost -= b.burst {
		l.ReserveN(now, min(cost, b.burst)) // a limiter reserves no more than its burst at once
	}
	deficit := max(0, -l.TokensAt(now))
	return min(MaxDelay, time.Duration(deficit/float64(b.limit)*float64(time.Second)))
}
