package invoke

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// maxEmit is the maximum size of the JSON of an event, in bytes. The size is checked before the
// event is copied.
const maxEmit = 1 << 20

// Emit emits the custom event whose JSON is b. The reply is empty.
func (inv *Invocation) Emit(b []byte) ([]byte, error) {
	return inv.Ask(
		func() replay.HostCall { return replay.HostCall{Name: "emit", Bytes: []replay.Blob{b}} },
		func() ([]byte, error) {
			defer inv.syncClock()
			var e contract.Custom
			unknown, err := abijson.DecodeUntil(b, &e, inv.checkTime)
			switch {
			case err != nil:
				return nil, &abi.Error{Code: abi.CodeInvalid, Message: "emit: " + err.Error()}
			case len(unknown) > 0:
				return nil, &abi.Error{
					Code:    abi.CodeInvalid,
					Message: fmt.Sprintf("emit: unknown key %s; want name and data", unknown[0]),
				}
			}
			inv.wait(func() { err = inv.Call.Emit(e.Name, e.Data) })
			return nil, err
		},
	)
}

// CheckEvent returns an error if an event of n bytes is too large.
func CheckEvent(n int) error {
	if n <= maxEmit {
		return nil
	}
	return &abi.Error{
		Code:    abi.CodeLimit,
		Message: fmt.Sprintf("emit: an event of %d bytes; at most %d are allowed", n, maxEmit),
	}
}
