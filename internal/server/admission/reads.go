package admission

import "context"

// Limits on requests that only read, such as those for lists and histories. A tenant's requests run
// one at a time. The requests of all tenants together use fewer connections than the store has, so
// that some are left for runs and keys.
const (
	maxLists       = 3
	maxStates      = 2   // requests for the state of a run
	maxQueuedReads = 256 // per tenant
)

// Read waits for a slot and calls fn, which answers a request that only reads. If control is true,
// the request is for the state of a run: it does not queue behind lists, and its time is not charged
// to the tenant's CPU budget.
func (c *Controller) Read(ctx context.Context, tenant string, control bool, fn func() error) error {
	if !control {
		return c.run(ctx, c.lists, tenant, "reading requests", fn)
	}
	release, err := acquire(ctx, c.states, tenant, "requests for the state of a run")
	if err != nil {
		return err
	}
	defer release(0)
	return fn()
}
