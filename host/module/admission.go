package module

import (
	"context"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/sandbox"
)

// A Reservation is the memory that a run's modules may come to use.
type Reservation struct {
	// Parallel is how many tool calls may be under way at once.
	Parallel int
	// Release gives the memory back, after the run's last call. Twice is once.
	Release func()
}

// Reserve takes the memory that a run of these middlewares needs in the worst
// case, with as many tool calls at once as there is plenty of memory for, at
// most parallel. If there is not enough for one, it waits for runs that end, in
// order. The context that it returns is the run's: a run within that does not
// wait, since those it would wait for may wait for it.
//
// The error is a *sandbox.TooLargeError if the run can never have so much, a
// *sandbox.NoRoomError if it cannot have it now and must not wait, ctx's cause,
// or sandbox.ErrClosed.
func (l *Loader) Reserve(ctx context.Context, run []*Middleware, parallel int) (context.Context, *Reservation, error) {
	parallel = max(1, parallel)
	sizes := make([]int64, parallel)
	for i := range sizes {
		for _, mw := range run {
			sizes[i] += int64(mw.instances(i+1)) * mw.image.WorstCase()
		}
	}
	n, release, err := l.sandbox.ReserveOneOf(ctx, sizes)
	if err != nil {
		return ctx, nil, err
	}
	return sandbox.Holding(ctx), &Reservation{Parallel: n + 1, Release: release}, nil
}

// instances is how many instances a run of the entry has at once at most, with
// so many tool calls at once. A hook has one, and another one runs while it
// waits in next, if the entry has such hooks.
func (mw *Middleware) instances(parallel int) int {
	has := func(hooks ...abi.Hook) bool {
		return slices.ContainsFunc(hooks, func(h abi.Hook) bool { return slices.Contains(mw.module.hooks, h) })
	}
	calls := 0
	if has(abi.HookBeforeTool, abi.HookWrapToolCall, abi.HookGateTool, abi.HookCallTool, abi.HookOnChunk, abi.HookAfterTool, abi.HookToolMessages) {
		calls = 1
	}
	if has(abi.HookWrapToolCall) && has(abi.HookOnChunk, abi.HookGateTool, abi.HookCallTool) {
		calls = 2
	}
	rest := 1
	if has(abi.HookWrapModel) && has(abi.HookOnChunk) {
		rest = 2
	}
	client := 0
	if has(abi.HookTranslateBefore, abi.HookTranslateAfter) {
		client = 1 // beside any other
	}
	return min(mw.module.limits.Instances, max(rest, calls*parallel)+client)
}
