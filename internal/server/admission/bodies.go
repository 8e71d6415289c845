package admission

import (
	"context"
	"time"
)

// Request bodies by size. Parsing takes several times the memory of the body, so a tenant parses one
// large body at a time. It also writes one large input to the journal at a time.
const (
	SmallBody       = 32 << 10 // largest body that is parsed without a slot, which would cost more
	LargeBody       = 64 << 10 // largest body that does not count as large
	maxQueuedBodies = 64       // per tenant
)

// Parse calls fn, which parses a request body, with a processor slot unless the body is small.
func (c *Controller) Parse(ctx context.Context, tenant string, bytes int, fn func() error) error {
	if bytes <= SmallBody {
		return fn()
	}
	if bytes > LargeBody {
		release, err := acquire(ctx, c.bodies, tenant, "large inputs")
		if err != nil {
			return err
		}
		defer release(0)
	}
	return c.run(ctx, c.processors, tenant, "turns of a processor", fn)
}

// Write waits until an input of a tenant may be written to the journal. done ends the write. Only
// large inputs wait.
func (c *Controller) Write(ctx context.Context, tenant string, bytes int) (done func(), err error) {
	if bytes <= LargeBody {
		return func() {}, nil
	}
	release, err := acquire(ctx, c.inputs, tenant, "large inputs")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func() { release(charge(c.cpu, tenant, time.Since(began), c.contended)) }, nil
}
