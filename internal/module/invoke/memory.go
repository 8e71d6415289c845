package invoke

import (
	"errors"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// hold counts n bytes that the host keeps during the call towards the run's memory; see
// [hook.Control.Hold]. It returns a [*policy.LimitError] if the limit on the run's memory is
// reached.
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

// holdReply is like hold for n bytes of arguments or reply, which count until the next host call.
func (inv *Invocation) holdReply(n int) error {
	if err := inv.hold(int64(n)); err != nil {
		return err
	}
	inv.heldReply += int64(n)
	return nil
}

// DropReply discards the reply of the last host call, and subtracts the call's bytes from the run's
// memory.
func (inv *Invocation) DropReply() {
	inv.Pending = nil // the guest must not read this reply in place of the next one
	inv.replyBuffer, inv.takeBuffer = reusable(inv.replyBuffer), reusable(inv.takeBuffer)
	_ = inv.hold(-inv.heldReply)
	inv.heldReply = 0
}
