package admission

import (
	"context"
	"time"
)

// Limits on request bodies; sizes are in bytes. Parsing takes several times the memory of the body,
// so a tenant parses one large body at a time. It also writes one large input to the journal at a
// time.
const (
	SmallBody       = 32 << 10 // largest body that is parsed without a slot: waiting for one would cost more
	LargeBody       = 64 << 10 // largest body that does not count as large
	maxQueuedBodies = 64       // per tenant
)

// Parse calls fn, which parses a request body of a tenant. Unless the body is small, Parse first
// waits for a processor slot, and charges the time of fn to the tenant's CPU budget. A body above
// LargeBody also waits until the tenant's other large bodies are parsed.
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

// Write waits until an input of a tenant may be written to the journal. The caller calls done after
// the write, whose time is charged to the tenant's CPU budget. Inputs of up to LargeBody bytes
// neither wait nor are charged.
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
