package invoke

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// Next runs what the hook wraps with a patch, empty for none.
func (inv *Invocation) Next(ctx context.Context, patch []byte) ([]byte, error) {
	return inv.Ask(func() replay.HostCall { return replay.HostCall{Name: "next", Bytes: []replay.Blob{patch}} }, func() ([]byte, error) {
		defer inv.syncClock()
		switch inv.Hook {
		case abi.HookWrapModel:
			var p abi.RequestPatch
			if err := inv.Decode("next: patch of the request", patch, &p); err != nil {
				return nil, err
			}
			var res *abi.Response
			var err error
			inv.wait(func() { res, err = inv.Call.NextModel(ctx, p) })
			if err != nil {
				return nil, err
			}
			return abijson.Marshal(&abi.ModelReply{Response: res})
		case abi.HookWrapToolCall:
			p, err := inv.callPatch("next: patch of the call", patch)
			if err != nil {
				return nil, err
			}
			var res *abi.Result
			inv.wait(func() { res, err = inv.Call.NextTool(ctx, p) })
			if err != nil {
				return nil, err
			}
			return abijson.Marshal(&abi.ToolReply{Result: res})
		default:
			_, err := hook.ControlOf(inv.Call).Next(ctx, nil) // says why not
			return nil, err
		}
	})
}

// Decode reads what the guest hands to a host call; nothing leaves out as it is.
func (inv *Invocation) Decode(what string, b []byte, out any) error {
	if len(b) == 0 {
		return nil
	}
	unknown, err := abijson.DecodeUntil(b, out, inv.checkTime)
	if err != nil {
		return &abi.Error{Code: abi.CodeInvalid, Message: what + ": " + err.Error()}
	}
	inv.warnUnknown(what, unknown)
	return nil
}

// callPatch reads a patch of a tool call. Arguments are looked through here, in the
// guest's time, for as long as the chain will: what that does, the guest waits for.
// What is wrong with them is the chain's to say.
func (inv *Invocation) callPatch(what string, patch []byte) (p abi.CallPatch, err error) {
	if err = inv.Decode(what, patch, &p); err == nil && p.Arguments != nil {
		_ = jsoncodec.ValidUntil([]byte(*p.Arguments), inv.checkTime)
	}
	return p, err
}

func (inv *Invocation) warnUnknown(what string, keys []string) {
	for _, key := range keys {
		inv.log(abi.LogWarn, fmt.Sprintf("%s: unknown key %s", what, key))
	}
}
