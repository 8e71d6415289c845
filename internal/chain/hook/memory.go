package hook

import (
	"github.com/agent-runner/agent-runner/internal/chain/ending"
)

// Hold counts n bytes as memory of the host until the hook call ends. A negative n uncounts bytes.
// The error is an *[ending.FaultError].
func (c *Control) Hold(n int64) error {
	if err := c.held.Add(n); err != nil {
		return ending.MemoryFault(err)
	}
	return nil
}

// awaitMemory waits until there is memory for an event of n bytes. In a hook that translates
// events, it returns an error instead of waiting. The time does not count as the hook's. The caller
// must not hold a lock that the journal or the run's caller may need.
func (c *Call) awaitMemory(what string, n int) error {
	if c.run.accountant == nil {
		return nil
	}
	if c.eventSink != nil { // waiting could deadlock: the pending events wait for the event in translation
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

// mayHold returns an error if the run's memory is full. what names the operation in the error.
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
