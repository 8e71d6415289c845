package chain

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// A Keeper is a Host that keeps what happens in a run, so that another process
// can go on with it.
type Keeper interface {
	// Keep returns once all that was recorded so far is kept, so that it outlasts
	// the process, and where it is to be safe a failure of power as well. Its error
	// ends the run.
	Keep(ctx context.Context, safe bool) error
}

// keep waits until what was recorded is kept, where somebody keeps it. It is to be
// safe before something is done that must not be done twice.
func (r *Run) keep(ctx context.Context, safe bool) error {
	k, ok := r.host.(Keeper)
	if !ok {
		return nil
	}
	if err := k.Keep(ctx, safe); err != nil {
		return &ending.AbortedError{Cause: err}
	}
	r.owed.some.Store(false)
	return nil
}

// An owed says that something recorded is still to be kept, before a hook or a tool
// is called, which may do something outside because of it.
type owed struct {
	mu   sync.Mutex // held by who keeps it
	some atomic.Bool
}

// keepAnswer keeps what the model answered: now, if a hook waits for it, and else
// before the next hook or tool is called. Where there is none it is kept with what
// follows.
func (r *Run) keepAnswer(ctx context.Context) error {
	waits := r.scope != "" || len(r.path) > 0 // a middleware asked
	for i := Outer; i < rings; i++ {
		waits = waits || len(r.in(i, abi.HookWrapModel)) > 0
	}
	if waits {
		return r.keep(ctx, false)
	}
	r.owed.some.Store(true)
	return nil
}

// keepOwed waits until what is owed is kept.
func (r *Run) keepOwed(ctx context.Context) error {
	if !r.owed.some.Load() {
		return nil
	}
	r.owed.mu.Lock()
	defer r.owed.mu.Unlock()
	if !r.owed.some.Load() {
		return nil
	}
	return r.keep(ctx, false)
}

// Delta returns what changed since it was asked for the last time. take is
// called with it while no hook's answer is being recorded, so that whoever
// keeps it also knows which events belong to it. At the end of a phase what
// wrappers wrote is among it: they are not called again.
func (r *Run) Delta(phaseEnds bool, take func(*record.Delta) error) error {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	if phaseEnds {
		r.locals.ReleaseAll()
	}
	d := &record.Delta{Locals: r.locals.Changes()}
	var err error
	if d.Record, d.Asked, err = r.record.Changes(); err != nil {
		return err
	}
	return take(d)
}

// Recording calls fn while nothing is collected: what it changes and tells is
// kept together. It must not call hooks.
func (r *Run) Recording(fn func()) {
	r.keeping.RLock()
	defer r.keeping.RUnlock()
	fn()
}

// Settle says that what came of a tool call is recorded: its wrappers are not
// called again.
func (r *Run) Settle(o *ToolOutcome) {
	r.locals.Release(o.held)
}

// withHold returns ctx with a hold for the exchange that begins. An exchange
// within another one uses the hold of that one.
func withHold(ctx context.Context) (context.Context, *local.Hold) {
	if h := local.HoldOf(ctx); h != nil {
		return ctx, h
	}
	return local.WithHold(ctx)
}

// endWrites marks what a finished hook call wrote as to be persisted.
func endWrites(ctx context.Context, c *Call) {
	var h *local.Hold
	if live[c.Hook] {
		h = local.HoldOf(ctx)
	}
	c.locals.End(h)
}
