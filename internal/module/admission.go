package module

import (
	"context"
	"errors"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// A Placed is an entry in its ring.
type Placed struct {
	*Middleware
	Ring hook.Ring
}

// A Reservation is the memory that a run's modules may come to use.
type Reservation struct {
	// Parallel is how many tool calls may be under way at once.
	Parallel int
	// Room is that for calls that middlewares make of their own.
	Room *Room
	// Release gives the memory back, after the run's last call. Twice is once.
	Release func()
}

// Reserve takes the memory that a run of these middlewares needs in the worst
// case, with as many tool calls at once as there is plenty of memory for, at
// most parallel, and with room for one call of a module's own in each of them
// where modules may make such calls. If there is not enough for one, it waits
// for runs that end, in order. The context that it returns is the run's: a run
// within that does not wait, since those it would wait for may wait for it.
//
// The error is a *sandbox.TooLargeError if the run can never have so much, a
// *sandbox.NoRoomError if it cannot have it now and must not wait, ctx's cause,
// or sandbox.ErrClosed.
func (l *Loader) Reserve(ctx context.Context, run []Placed, parallel int) (context.Context, *Reservation, error) {
	parallel = max(1, parallel)
	room := &Room{loader: l, run: run, under: map[hook.Own]int{}}
	own := room.granted()
	sizes := make([]int64, parallel)
	for i := range sizes {
		sizes[i] = worstCase(run, i+1) + int64(i+1)*own
	}
	n, release, err := l.sandbox.ReserveOneOf(ctx, sizes)
	var never *sandbox.TooLargeError
	if errors.As(err, &never) && own > 0 {
		// Then its modules' own calls have to do with what is free when they come.
		n, release, err = l.sandbox.ReserveOneOf(ctx, []int64{worstCase(run, 1)})
		own = 0
	}
	if err != nil {
		return ctx, nil, err
	}
	room.parallel = n + 1
	if own > 0 {
		room.reserved, room.size = n+1, own
	}
	ctx = context.WithValue(sandbox.WithReservation(ctx), roomKey{}, room)
	return ctx, &Reservation{Parallel: n + 1, Room: room, Release: release}, nil
}

// worstCase is the memory of a run with so many tool calls at once, but for
// calls that modules make of their own.
func worstCase(run []Placed, parallel int) (bytes int64) {
	for _, p := range run {
		bytes += int64(p.instances(parallel)) * p.worstCase()
	}
	return bytes
}

// worstCase is the most memory that one instance can come to hold, and what the
// host holds for it, in bytes.
func (mw *Middleware) worstCase() int64 {
	return mw.image.WorstCase() + mw.module.transport.HostBytes(&mw.module.limits)
}

// instances is how many instances a run of the entry has at once at most, with
// so many tool calls at once. A hook has one, and another one runs while it
// waits in next, if the entry has such hooks.
func (mw *Middleware) instances(parallel int) int {
	client := 0
	if mw.hasAny(abi.HookTranslateBefore, abi.HookTranslateAfter) {
		client = 1 // beside any other
	}
	return min(mw.module.limits.Instances, max(1, mw.inModelCall(), mw.inToolCall()*parallel)+client)
}

func (mw *Middleware) hasAny(hooks ...abi.Hook) bool {
	return slices.ContainsFunc(hooks, func(h abi.Hook) bool { return slices.Contains(mw.module.hooks, h) })
}

// inToolCall is how many instances one tool call has at once at most.
func (mw *Middleware) inToolCall() int {
	switch {
	case mw.hasAny(abi.HookWrapToolCall) && mw.hasAny(abi.HookOnChunk, abi.HookGateTool, abi.HookCallTool):
		return 2
	case mw.hasAny(abi.HookBeforeTool, abi.HookWrapToolCall, abi.HookGateTool, abi.HookCallTool, abi.HookOnChunk, abi.HookAfterTool, abi.HookToolMessages):
		return 1
	default:
		return 0
	}
}

// inModelCall is how many instances one model call has at once at most.
func (mw *Middleware) inModelCall() int {
	switch {
	case mw.hasAny(abi.HookWrapModel) && mw.hasAny(abi.HookOnChunk):
		return 2
	case mw.hasAny(abi.HookBeforeModel, abi.HookWrapModel, abi.HookOnChunk, abi.HookAfterModel):
		return 1
	default:
		return 0
	}
}
