package invoke

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// NextStream makes the call that the hook wraps and opens the stream of its answer.
func (inv *Invocation) NextStream(ctx context.Context, patch []byte) ([]byte, error) {
	return inv.Ask(
		func() replay.HostCall { return replay.HostCall{Name: "next_stream", Bytes: []replay.Blob{patch}} },
		func() ([]byte, error) {
			defer inv.syncClock()
			const what = "next_stream: patch"
			var p any
			var err error
			switch inv.Hook {
			case contract.HookWrapModel:
				p = &abi.RequestPatch{}
				err = inv.Decode(what, patch, p)
			case contract.HookWrapToolCall:
				var call abi.CallPatch
				call, err = inv.callPatch(what, patch)
				p = &call
			default:
				return nil, hook.ControlOf(inv.Call).NextStream(ctx, nil) // returns the reason
			}
			if err != nil {
				return nil, err
			}
			inv.wait(func() { err = hook.ControlOf(inv.Call).NextStream(ctx, p) })
			return []byte("{}"), err
		},
	)
}

// Recv returns the pending chunks of the stream as JSON. After the last chunk it returns the end of
// the stream, and from then on empty replies.
func (inv *Invocation) Recv(ctx context.Context) ([]byte, error) {
	return inv.Ask(func() replay.HostCall { return replay.HostCall{Name: "recv"} }, func() ([]byte, error) {
		defer inv.syncClock()
		// A byte of text takes up to six bytes in JSON.
		const escaped, frame = 6, 1 << 10
		var got contract.Received
		var err error
		inv.wait(func() { got, err = hook.ControlOf(inv.Call).Recv(ctx, max(0, inv.Limits.ReplyBytes-frame)/escaped) })
		if err != nil || got.End == nil && len(got.Chunks) == 0 {
			return nil, err
		}
		return abijson.Marshal(got)
	})
}

// Send passes chunks to the outer middlewares. It blocks until they have accepted the chunks.
func (inv *Invocation) Send(ctx context.Context, b []byte) ([]byte, error) {
	return inv.Ask(
		func() replay.HostCall { return replay.HostCall{Name: "send", Bytes: []replay.Blob{b}} },
		func() ([]byte, error) {
			defer inv.syncClock()
			var s contract.Sent
			switch inv.Hook {
			case contract.HookWrapModel, contract.HookWrapToolCall, contract.HookCallTool:
			default:
				return nil, inv.Call.Send(ctx) // returns the reason
			}
			if len(b) == 0 {
				return nil, &abi.Error{Code: abi.CodeInvalid, Message: `send: want {"chunks": […]}`}
			}
			if err := inv.Decode("send", b, &s); err != nil {
				return nil, err
			}
			var err error
			inv.wait(func() { err = inv.Call.Send(ctx, s.Chunks...) })
			return nil, err
		},
	)
}
