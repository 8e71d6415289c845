package httpapi

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/store"
)

// ThreadHeader is the header in which requests of model APIs name the thread that they continue.
const ThreadHeader = "X-Thread"

// Thread returns a thread that the caller may use: read, continue, fork, export, change and delete.
// It fails with [journal.ErrNoThread] if the tenant has no such thread. A handler of a request that
// names a thread, or a run of a thread by its response id, must call Thread before it uses the
// thread.
func (c *Caller) Thread(ctx context.Context, id string) (*store.Thread, error) {
	return c.Tenant.Thread(ctx, id)
}

// CheckNewThread fails if the caller may not create the thread h. Every request that creates a thread
// calls it first, also if the new thread is a fork.
func (c *Caller) CheckNewThread(_ context.Context, _ *store.Thread) error { return nil }
