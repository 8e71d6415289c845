package invoke

import (
	"errors"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// hold accounts for n bytes that the host keeps during the call; see [hook.Control.Hold]. The error
// is a [*policy.LimitError] if the run's memory limit is reached.
func (inv *Invocation) hold(n int64) error {
	if inv.Call == nil {
		return nil
	}
	err := hook.ControlOf(inv.Call).Hold(n)
	if err == nil {
		return nil
	}
	if full := (*ending.FaultError)(nil); errors.As(err, &full) {
		return &policy.LimitError{Limit: full.Limit, Max: int(full.Value), What: full.Cause.Error()}
	}
	return err
}

// holdReply accounts for n bytes of arguments or reply until the next host call.
func (inv *Invocation) holdReply(n int) error {
	if err := inv.hold(int64(n)); err != nil {
		return err
	}
	inv.heldReply += int64(n)
	return nil
}

// DropReply releases the memory that the invocation holds for the last host call.
func (inv *Invocation) DropReply() {
	inv.Pending = nil // the next reply must not expose this one
	inv.replyBuffer, inv.takeBuffer = reusable(inv.replyBuffer), reusable(inv.takeBuffer)
	_ = inv.hold(-inv.heldReply)
	inv.heldReply = 0
}
