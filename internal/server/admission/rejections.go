package admission

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/internal/fairshare"
)

// Limits on rejections. A rejected request costs about as much as a small successful one, but
// counts against no quota. Rejections are therefore delayed if a tenant causes many more of them
// than a client that respects Retry-After would.
const (
	rejectionBurst = 600
	rejectionRate  = 50 // per second
	rejectionCost  = time.Second / rejectionRate
	maxDelayed     = 4096 // for all tenants together
)

// NoKey is the tenant of all callers without a valid key.
const NoKey = "no key"

// Rejections delays the rejections of tenants that are rejected too often.
type Rejections struct {
	budget   *fairshare.Budget // each rejection is charged rejectionCost
	draining <-chan struct{}
	delayed  atomic.Int64
}

func newRejections(draining <-chan struct{}) *Rejections {
	return &Rejections{budget: fairshare.NewBudget(1, rejectionBurst*rejectionCost, MaxDelay), draining: draining}
}

// Wait counts a rejection, and returns when the rejection may be sent. Wait returns at once if the
// tenant is within its rate or maxDelayed rejections are delayed, and early if ctx is done or the
// server drains.
func (r *Rejections) Wait(ctx context.Context, tenant string) {
	delay := r.budget.Charge(tenant, rejectionCost)
	if delay <= 0 {
		return
	}
	defer r.delayed.Add(-1)
	if r.delayed.Add(1) > maxDelayed {
		return
	}
	select {
	case <-ctx.Done():
	case <-r.draining:
	case <-time.After(delay):
	}
}
