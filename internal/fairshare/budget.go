package fairshare

import (
	"time"

	"golang.org/x/time/rate"
)

// A Budget limits the time that the work of each tenant takes, such as processor time. It is a
// token bucket of microseconds with a deficit: the time is known only when the work is done.
type Budget struct {
	limit    rate.Limit // microseconds a second
	burst    int        // microseconds
	maxDelay time.Duration
	buckets  buckets
}

// NewBudget returns a budget that gives each tenant a share of the time: 0.25 is a quarter of
// one processor. burst is the capacity of a tenant's bucket, which is full at first. maxDelay caps
// one delay. A tenant exceeds its share if each piece of its work takes more than
// share/(1-share)*maxDelay.
func NewBudget(share float64, burst, maxDelay time.Duration) *Budget {
	return &Budget{limit: rate.Limit(share * 1e6), burst: int(burst.Microseconds()), maxDelay: maxDelay}
}

// Charge deducts the time that a tenant's work took, and returns the delay before the tenant's next
// work. The delay keeps the tenant within its share. It is zero while the burst lasts, and at most
// the budget's maximum: Charge drops any larger deficit.
func (b *Budget) Charge(tenant string, took time.Duration) (delay time.Duration) {
	now := time.Now()
	l := b.buckets.get(tenant, now, b.limit, b.burst)
	maxDeficit := float64(b.limit) * b.maxDelay.Seconds()
	cost := int(min(float64(took.Microseconds()), l.TokensAt(now)+maxDeficit))
	for ; cost > 0; cost -= b.burst {
		l.ReserveN(now, min(cost, b.burst)) // a limiter reserves no more than its burst at once
	}
	deficit := max(0, -l.TokensAt(now))
	return min(b.maxDelay, time.Duration(deficit/float64(b.limit)*float64(time.Second)))
}
