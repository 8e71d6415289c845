package hook

import (
	"github.com/agent-runner/agent-runner/internal/chain/ending"
)

// Hold counts n bytes that the host holds for the hook call, until its end. A negative n
// returns bytes before that. The error is a [*Fault].
func (c *Control) Hold(n int64) error {
	if err := c.held.Add(n); err != nil {
		return ending.MemoryFault(err)
	}
	return nil
}

// awaitMemory waits until the host can hold an event of n bytes that the hook makes.
// The time is not the hook's. It must be called without a lock that the journal or
// the caller of the run may need.
func (c *Call) awaitMemory(what string, n int) error {
	if c.run.accountant == nil {
		return nil
	}
	if c.divert != nil { // the event that is translated is in the way of others
		if err := c.run.accountant.HasMemory(int64(n)); err != nil {
			return ending.LimitOrAbort(what, err)
		}
		return nil
	}
	return c.waitFor(func() error {
		if err := c.run.accountant.AwaitMemory(c.ctx, int64(n)); err != nil {
			return ending.LimitOrAbort(what, err)
		}
		return nil
	})
}

// mayHold fails if the run's memory is full, before a hook makes more answers.
func (r *Run) mayHold(what string) error {
	if r.accountant == nil {
		return nil
	}
	a := r.accountant.Account()
	if err := a.TryReserve(1); err != nil {
		return ending.LimitOrAbort(what, err)
	}
	a.Release(1)
	return nil
}
