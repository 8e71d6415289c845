package admission

import (
	"context"
	"runtime"
	"time"

	"github.com/agent-runner/agent-runner/internal/fairshare"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// contention is the longest time that a yield takes if nothing else wants the processor.
const contention = 50 * time.Microsecond

// Sharer describes a tenant to the sandbox. The sandbox counts the memory of the tenant's guests
// together, and calls Turn to share the processors between its long-running guests and those of
// other tenants.
func (c *Controller) Sharer(tenant string) *sandbox.Tenant {
	return &sandbox.Tenant{
		Name:       tenant,
		AcquireCPU: func(ctx context.Context) (func(), error) { return c.Turn(ctx, tenant) },
	}
}

// Turn waits for a processor slot for one time slice of a guest. done ends the time slice, and
// charges its time to the tenant's CPU budget.
func (c *Controller) Turn(ctx context.Context, tenant string) (done func(), err error) {
	release, err := acquire(ctx, c.processors, tenant, "turns of a processor")
	if err != nil {
		return nil, err
	}
	waited := c.yield()
	began := time.Now()
	return func() {
		release(charge(c.cpu, tenant, time.Since(began), func(tenant string) bool {
			return waited > contention && c.InFlight.Others(tenant)
		}))
	}, nil
}

// charge charges took to a tenant's budget, and returns the delay before the tenant's next work. The
// delay is 0 if contended reports false.
func charge(b *fairshare.Budget, tenant string, took time.Duration, contended func(tenant string) bool) time.Duration {
	delay := b.Charge(tenant, took)
	if delay > 0 && !contended(tenant) {
		return 0
	}
	return delay
}

// contended yields the processor if other tenants are active. It reports whether other work wanted
// the processor.
func (c *Controller) contended(tenant string) bool {
	return c.InFlight.Others(tenant) && c.yield() > contention
}

// yield gives the processor to waiting goroutines and threads, and returns the time that they took.
func yield() time.Duration {
	began := time.Now()
	// The receiver of a released slot runs next on this processor, before Go's global queue.
	// Goroutines there, such as those with results from the disk, would wait for dozens of time
	// slices. Gosched moves this goroutine to the end of that queue.
	runtime.Gosched()
	schedYield() // threads of this process wait in the kernel's queue, too
	return time.Since(began)
}

// Background work of a tenant, such as replays, uses one processor at a time, and at most a quarter of it
// while the processor is wanted by other work, including the tenant's own runs.
const (
	backgroundShare = 0.25
	backgroundDelay = time.Second // maximum pause after a time slice
)

// BackgroundSharer describes a tenant to the sandbox as Sharer does, for background work.
func (c *Controller) BackgroundSharer(tenant string) *sandbox.Tenant {
	return &sandbox.Tenant{
		Name:       tenant,
		AcquireCPU: func(ctx context.Context) (func(), error) { return c.backgroundTurn(ctx, tenant) },
	}
}

// backgroundTurn waits for a processor slot for one time slice of a guest that does background work.
func (c *Controller) backgroundTurn(ctx context.Context, tenant string) (done func(), err error) {
	release, err := acquire(ctx, c.background, tenant, "turns of background work")
	if err != nil {
		return nil, err
	}
	turn, err := c.Turn(ctx, tenant)
	if err != nil {
		release(0)
		return nil, err
	}
	began := time.Now()
	return func() {
		took := time.Since(began)
		turn()
		if c.yield() <= contention {
			release(0)
			return
		}
		release(min(backgroundDelay, time.Duration(float64(took)*(1/backgroundShare-1))))
	}, nil
}
