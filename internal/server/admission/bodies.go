package admission

import (
	"context"
	"time"
)

// Request bodies by size. A tenant parses one large body at a time, and writes one large input to
// the journal at a time. Both count for more than they took, the larger the more, since modules and
// models are sent them too.
const (
	SmallBody       = 32 << 10 // at most: parsed without a slot, which would cost more
	LargeBody       = 64 << 10 // above
	maxQueuedBodies = 64       // of a tenant

	writePause = 3         // after a write: times as long as it counts
	extraBytes = 128 << 10 // a third more for each
)

// Parse calls fn, which parses a body of a tenant's, with a processor slot if it is not small.
func (c *Controller) Parse(ctx context.Context, tenant string, bytes int, fn func() error) error {
	if bytes <= SmallBody {
		return fn()
	}
	if bytes > LargeBody {
		turn, err := acquire(ctx, c.bodies, tenant, "large inputs")
		if err != nil {
			return err
		}
		delay := time.Duration(0)
		defer func() { turn(delay) }()
		work := fn
		fn = func() error {
			began := time.Now()
			defer func() { delay = c.charge(c.cpu, tenant, weigh(bytes, time.Since(began)), c.InFlight.Others) }()
			return work()
		}
	}
	release, err := acquire(ctx, c.processors, tenant, "turns of a processor")
	if err != nil {
		return err
	}
	defer release(0)
	return fn()
}

// Write waits until an input of a tenant's may be written to the journal. done ends the write.
// Small inputs do not wait.
func (c *Controller) Write(ctx context.Context, tenant string, bytes int) (done func(), err error) {
	if bytes <= LargeBody {
		return func() {}, nil
	}
	release, err := acquire(ctx, c.inputs, tenant, "large inputs")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func() {
		took := weigh(bytes, time.Since(began))
		release(max(c.cpu.Charge(tenant, took), min(writePause*took, time.Second)))
	}, nil
}

// weigh returns what work on a large body counts as.
func weigh(bytes int, took time.Duration) time.Duration {
	return took + took*time.Duration(bytes/extraBytes)/3
}
