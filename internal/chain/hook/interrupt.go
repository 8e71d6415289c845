package hook

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// mayInterrupt returns an error if the call cannot pause the run.
func (c *Call) mayInterrupt() error {
	switch {
	case c.run.Settled:
		by := c.run.path[len(c.run.path)-1]
		return fmt.Errorf("an interrupt within a call of %s that %s made where the run cannot be paused", by.of, by.by.Name)
	case c.Hook == contract.HookOnChunk:
		return fmt.Errorf("an interrupt in on_chunk: a stream cannot be paused")
	case c.delivered != nil && c.delivered():
		return fmt.Errorf(
			"an interrupt after a part of the answer was delivered; interrupt before, or describe the module with hold_stream",
		)
	}
	return nil
}

// interrupt records that a call waits for an answer. It commits the call's writes to run-local
// values, since the hook will be called again. The error pauses the run, or reports that the
// interrupt or a staged write exceeds a limit.
func (r *Run) interrupt(c *Call, i abi.Interrupt) error { return r.interruptWith(c, i, nil) }

// interruptWith is like interrupt, with the questions of several gates in asks.
func (r *Run) interruptWith(c *Call, i abi.Interrupt, asks []abi.Ask) error {
	r.keeping.RLock()
	err := c.locals.Commit()
	r.keeping.RUnlock()
	if err != nil {
		return err
	}
	return r.Pause(c.key,
		abi.Pending{Entry: c.member.Name, Hook: c.Hook, Reason: i.Reason, Payload: i.Payload, Call: c.tool, Asks: asks})
}

// Pause records an interrupt under the key of the call to repeat. The error is an
// *[ending.InterruptedError], or reports that the interrupt exceeds a limit.
func (r *Run) Pause(key string, p abi.Pending) error {
	p.ID = "int_" + strings.TrimPrefix(r.NewID(), "msg_")
	p.Reason = safetext.Clip(p.Reason, ending.MaxReason)
	if err := r.Record.Interrupt(key, p); err != nil {
		return err
	}
	return &ending.InterruptedError{Pending: p}
}
