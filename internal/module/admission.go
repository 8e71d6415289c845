package module

import (
	"context"
	"errors"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// Placed is a middleware with the ring of its entry.
type Placed struct {
	*Middleware
	Ring hook.Ring
}

// PlacedIn returns the modules among the entries of a chain.
func PlacedIn(entries []hook.Entry) (out []Placed) {
	for _, e := range entries {
		if mw, ok := e.Middleware.(*Middleware); ok {
			out = append(out, Placed{Middleware: mw, Ring: e.Ring})
		}
	}
	return out
}

// A Reservation is the memory that a run's modules may use.
type Reservation struct {
	// Parallel is the maximum number of concurrent tool calls.
	Parallel int
	// OwnCalls manages the memory for model and tool calls that middlewares make themselves.
	OwnCalls *OwnCalls
	// Release ends the reservation. It must be called after the run's last call; further calls do
	// nothing.
	Release func()
}

// Reserve reserves the memory that a run of these middlewares needs in the worst case. This
// includes one model or tool call by a middleware per parallel tool call. If that much memory can
// never become free, Reserve reserves memory for one tool call at a time and for no calls by
// middlewares.
//
// The argument parallel is the maximum number of parallel tool calls; if memory is short, the
// reservation is for fewer. If there is not enough memory for one tool call, Reserve waits until
// other runs end. The run must use the returned context: a nested run with a context derived from
// it does not wait, because the runs that the nested run would wait for may be waiting for its
// result.
//
// The error is a *sandbox.TooLargeError if the run can never fit, a *sandbox.NoRoomError if a
// nested run does not fit now, ctx's cause, or sandbox.ErrClosed.
func (l *Loader) Reserve(ctx context.Context, run []Placed, parallel int) (context.Context, *Reservation, error) {
	parallel = max(1, parallel)
	own := &OwnCalls{loader: l, run: run, under: map[hook.Own]int{}}
	perCall := own.granted()
	sizes := make([]int64, parallel)
	for i := range sizes {
		sizes[i] = worstCase(run, i+1) + int64(i+1)*perCall
	}
	n, release, err := l.sandbox.ReserveOneOf(ctx, sizes)
	var never *sandbox.TooLargeError
	if errors.As(err, &never) && perCall > 0 {
		// Without a reservation, calls that modules make use memory that is free at the time.
		n, release, err = l.sandbox.ReserveOneOf(ctx, []int64{worstCase(run, 1)})
		perCall = 0
	}
	if err != nil {
		return ctx, nil, err
	}
	own.parallel = n + 1
	if perCall > 0 {
		own.reserved, own.size = n+1, perCall
	}
	ctx = context.WithValue(sandbox.WithReservation(ctx), ownCallsKey{}, own)
	return ctx, &Reservation{Parallel: n + 1, OwnCalls: own, Release: release}, nil
}

// worstCase returns the maximum memory, in bytes, that a run with the given number of parallel tool
// calls uses, without the calls that modules make themselves.
func worstCase(run []Placed, parallel int) (bytes int64) {
	for _, p := range run {
		bytes += int64(p.instances(parallel)) * p.worstCase()
	}
	return bytes
}

// worstCase returns the maximum memory, in bytes, that one instance uses. This includes memory of
// the host outside of the instance.
func (mw *Middleware) worstCase() int64 {
	return mw.image.WorstCase() + mw.module.transport.HostBytes(&mw.module.limits)
}

// instances returns the maximum number of instances of the entry that a run with the given number
// of parallel tool calls uses at once. A call needs a second instance if another hook of the entry
// can run while the first hook waits in next.
func (mw *Middleware) instances(parallel int) int {
	client := 0
	if mw.hasAny(contract.HookTranslateBefore, contract.HookTranslateAfter) {
		client = 1 // runs at the same time as any other hook
	}
	return min(mw.module.limits.Instances, max(1, mw.inModelCall(), mw.inToolCall()*parallel)+client)
}

func (mw *Middleware) hasAny(hooks ...abi.Hook) bool {
	return slices.ContainsFunc(hooks, func(h abi.Hook) bool { return slices.Contains(mw.module.hooks, h) })
}

// during reports whether the module has a hook whose [abitable.Hook.During] is phase or "call". The
// value "call" means model calls and tool calls.
func (mw *Middleware) during(phase string) bool {
	return slices.ContainsFunc(mw.module.hooks, func(h abi.Hook) bool {
		during := abitable.HookOf(h).During
		return during == phase || during == "call"
	})
}

// inToolCall returns the maximum number of instances that one tool call uses at once.
func (mw *Middleware) inToolCall() int {
	switch {
	case mw.hasAny(contract.HookWrapToolCall) &&
		mw.hasAny(contract.HookOnChunk, contract.HookGateTool, contract.HookCallTool):
		return 2
	case mw.during("tool"):
		return 1
	default:
		return 0
	}
}

// inModelCall returns the maximum number of instances that one model call uses at once.
func (mw *Middleware) inModelCall() int {
	switch {
	case mw.hasAny(contract.HookWrapModel) && mw.hasAny(contract.HookOnChunk):
		return 2
	case mw.during("model"):
		return 1
	default:
		return 0
	}
}
