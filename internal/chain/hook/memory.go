package hook

import (
	"github.com/agent-runner/agent-runner/internal/chain/ending"
)

// Hold counts n bytes that the host holds until the hook call ends. A negative n returns bytes that
// were counted earlier. The error is an *[ending.FaultError].
func (c *Control) Hold(n int64) error {
	if err := c.held.Add(n); err != nil {
		return ending.MemoryFault(err)
	}
	return nil
}

// awaitMemory waits until the host can hold an event of n bytes; in a translation hook it fails
// instead. The time does not count as the hook's. The caller must hold no lock that the journal or
// the caller of the run may need.
func (c *Call) awaitMemory(what string, n int) error {
	if c.run.accountant == nil {
		return nil
	}
	if c.eventSink != nil { // waiting could deadlock: the events that hold the memory wait for the event in translation
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

// mayHold returns an error if the run's memory is exhausted, before a hook produces more.
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
