package module

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// nextStream opens the stream of what the hook wraps.
func (v *visit) nextStream(ctx context.Context, patch []byte) ([]byte, error) {
	return v.ask(func() HostCall { return HostCall{Name: "next_stream", Bytes: []Blob{patch}} }, func() ([]byte, error) {
		defer v.look()
		const what = "next_stream: patch"
		var p any
		var err error
		switch v.hook {
		case abi.HookWrapModel:
			p = &abi.RequestPatch{}
			err = v.decode(what, patch, p)
		case abi.HookWrapToolCall:
			var call abi.CallPatch
			call, err = v.callPatch(what, patch)
			p = &call
		default:
			return nil, v.call.NextStream(ctx, nil) // says why not
		}
		if err != nil {
			return nil, err
		}
		v.wait(func() { err = v.call.NextStream(ctx, p) })
		return []byte("{}"), err
	})
}

// recv returns what waits of the stream, then its end, then nothing.
func (v *visit) recv(ctx context.Context) ([]byte, error) {
	return v.ask(func() HostCall { return HostCall{Name: "recv"} }, func() ([]byte, error) {
		defer v.look()
		// A byte of text takes six at most as JSON.
		const escaped, frame = 6, 1 << 10
		var got abi.Received
		var err error
		v.wait(func() { got, err = v.call.Recv(ctx, max(0, v.limits.ReplyBytes-frame)/escaped) })
		if err != nil || got.End == nil && len(got.Chunks) == 0 {
			return nil, err
		}
		return abi.Marshal(got)
	})
}

// send hands chunks outward, and waits while nobody takes them.
func (v *visit) send(ctx context.Context, b []byte) ([]byte, error) {
	return v.ask(func() HostCall { return HostCall{Name: "send", Bytes: []Blob{b}} }, func() ([]byte, error) {
		defer v.look()
		var s abi.Sent
		switch v.hook {
		case abi.HookWrapModel, abi.HookWrapToolCall, abi.HookCallTool:
		default:
			return nil, v.call.Send(ctx) // says why not
		}
		if len(b) == 0 {
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: `send: want {"chunks": […]}`}
		}
		if err := v.decode("send", b, &s); err != nil {
			return nil, err
		}
		var err error
		v.wait(func() { err = v.call.Send(ctx, s.Chunks...) })
		return nil, err
	})
}

func nativeNextStream(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := v.nextStream(ctx, v.take(g, "next_stream", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}

func nativeRecv(ctx context.Context, v *visit, g *sandbox.Guest, _ []uint64) ([]byte, error) {
	reply, err := v.recv(ctx)
	g.Tick()
	return reply, err
}

func nativeSend(ctx context.Context, v *visit, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := v.send(ctx, v.take(g, "send", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}
