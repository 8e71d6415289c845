package invoke

import (
	"errors"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// hold counts n bytes that the host holds for the call while it lasts; see [hook.Call.Hold].
// The error is a [*limitError].
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

// holdReply counts what the guest hands to a host call, or its reply, until the next one.
func (inv *Invocation) holdReply(n int) error {
	if err := inv.hold(int64(n)); err != nil {
		return err
	}
	inv.heldReply += int64(n)
	return nil
}

// DropReply drops what the call holds of the last host call.
func (inv *Invocation) DropReply() {
	inv.Pending = nil // what is handed over must not see an older reply
	inv.replyBuffer, inv.takeBuffer = reusable(inv.replyBuffer), reusable(inv.takeBuffer)
	_ = inv.hold(-inv.heldReply)
	inv.heldReply = 0
}
