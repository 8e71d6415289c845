package invoke

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// Next makes the call that the hook wraps. The patch changes the model request or the tool call; an
// empty patch changes nothing.
func (inv *Invocation) Next(ctx context.Context, patch []byte) ([]byte, error) {
	return inv.Ask(
		func() replay.HostCall { return replay.HostCall{Name: "next", Bytes: []replay.Blob{patch}} },
		func() ([]byte, error) {
			defer inv.syncClock()
			switch inv.Hook {
			case contract.HookWrapModel:
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
				return abijson.Marshal(&contract.ModelReply{Response: res})
			case contract.HookWrapToolCall:
				p, err := inv.callPatch("next: patch of the call", patch)
				if err != nil {
					return nil, err
				}
				var res *abi.Result
				inv.wait(func() { res, err = inv.Call.NextTool(ctx, p) })
				if err != nil {
					return nil, err
				}
				return abijson.Marshal(&contract.ToolReply{Result: res})
			default:
				_, err := hook.ControlOf(inv.Call).Next(ctx, nil) // returns the reason
				return nil, err
			}
		},
	)
}

// Decode decodes the JSON of a host call's argument, which the argument what names in errors. If
// the JSON is empty, out stays unchanged.
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

// callPatch decodes a patch of a tool call. It also scans the arguments, so that the time that the
// chain needs to validate them counts as the guest's time. The chain returns the errors in the
// arguments.
func (inv *Invocation) callPatch(what string, patch []byte) (p abi.CallPatch, err error) {
	if err = inv.Decode(what, patch, &p); err == nil && p.Arguments != nil {
		_ = jsoncodec.ValidUntil([]byte(*p.Arguments), inv.checkTime)
	}
	return p, err
}

// warnUnknown logs a warning for each unknown key. In a run, it does so once per key.
func (inv *Invocation) warnUnknown(what string, keys []string) {
	for _, key := range keys {
		text := fmt.Sprintf("%s: unknown key %s", what, key)
		if inv.LogFunc == nil && inv.Call != nil {
			inv.wait(func() { hook.ControlOf(inv.Call).Warn(text) })
			continue
		}
		inv.log(contract.LogWarn, text)
	}
}
