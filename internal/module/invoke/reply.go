package invoke

import (
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// CheckAvailable returns an error if the named host call cannot be answered. A host call needs a
// run or a recording of one. The host call "config" needs only a configuration.
func (inv *Invocation) CheckAvailable(name string) error {
	if inv.Running() || name == "config" && inv.Config != nil {
		return nil
	}
	return Unavailable(name)
}

// Unavailable returns the error of a host call that needs a run.
func Unavailable(name string) error {
	return &abi.Error{Code: abi.CodeUnavailable, Message: name + " is not available while the module's image is built"}
}

// SetReply makes a host call's reply or error pending, and returns its length in bytes. The length
// of an error is negative. A reply that exceeds reply_bytes or the run's memory becomes an error
// with [abi.CodeLimit]. If err ends the run or is [replay.ErrDiverged], SetReply aborts the guest.
func (inv *Invocation) SetReply(g *sandbox.Guest, reply []byte, err error) int32 {
	if err != nil && (ending.Is(err) || errors.Is(err, replay.ErrDiverged)) {
		g.Abort(err)
	}
	if err == nil && len(reply) > inv.Limits.ReplyBytes {
		err = &abi.Error{
			Code: abi.CodeLimit,
			Message: fmt.Sprintf("the reply has %d bytes, more than the limit reply_bytes of %d",
				len(reply), inv.Limits.ReplyBytes),
		}
	}
	if err == nil {
		if full := inv.holdReply(len(reply)); full != nil {
			err = &abi.Error{Code: abi.CodeLimit, Message: "the reply: " + full.Error()}
		}
	}
	if err == nil {
		inv.chargeReply(g, len(reply))
		inv.Pending = reply
		return int32(len(reply))
	}
	if inv.Pending, err = abijson.Marshal(ending.AsError(err, abi.CodeInternal)); err != nil {
		g.Abort(err)
	}
	return -int32(len(inv.Pending))
}
