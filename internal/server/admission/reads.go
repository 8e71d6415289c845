package admission

import "context"

// Requests that only read (lists, histories) run one at a time for each tenant. All tenants
// together use fewer connections than the store has, so that some are left for runs and keys.
const (
	maxLists       = 3
	maxStates      = 2 // requests for the state of a run
	maxQueuedReads = 256
)

// Read calls fn, which answers a request that only reads. Requests for the state of a run, which
// are control requests, do not queue behind lists.
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
