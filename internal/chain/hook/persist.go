package hook

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// An owed says that something recorded is still to be kept, before a hook or a tool
// is called, which may do something outside because of it.
type owed struct {
	mu   sync.Mutex // held by who keeps it
	some atomic.Bool
}

// keep waits until what was recorded is kept, where somebody keeps it. It is to be
// safe before something is done that must not be done twice.
func (r *Run) Persist(ctx context.Context, safe bool) error {
	k, ok := r.Host.(Keeper)
	if !ok {
		return nil
	}
	if err := k.Keep(ctx, safe); err != nil {
		return &ending.AbortedError{Cause: err}
	}
	r.owed.some.Store(false)
	return nil
}

// keepAnswer keeps what the model answered: now, if a hook waits for it, and else
// before the next hook or tool is called. Where there is none it is kept with what
// follows.
func (r *Run) PersistAnswer(ctx context.Context) error {
	waits := r.Scope != "" || len(r.path) > 0 // a middleware asked
	for i := Outer; i < RingCount; i++ {
		waits = waits || len(r.In(i, abi.HookWrapModel)) > 0
	}
	if waits {
		return r.Persist(ctx, false)
	}
	r.owed.some.Store(true)
	return nil
}

// keepOwed waits until what is owed is kept.
func (r *Run) PersistOwed(ctx context.Context) error {
	if !r.owed.some.Load() {
		return nil
	}
	r.owed.mu.Lock()
	defer r.owed.mu.Unlock()
	if !r.owed.some.Load() {
		return nil
	}
	return r.Persist(ctx, false)
}

// endWrites marks what a finished hook call wrote as to be persisted.
func endWrites(ctx context.Context, c *Call) {
	var h *local.Hold
	if live[c.Hook] {
		h = local.HoldOf(ctx)
	}
	c.locals.End(h)
}

// Delta returns what changed since it was asked for the last time. take is
// called with it while no hook's answer is being recorded, so that whoever
// keeps it also knows which events belong to it. At the end of a phase what
// wrappers wrote is among it: they are not called again.
func (r *Run) Delta(phaseEnds bool, take func(*record.Delta) error) error {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	if phaseEnds {
		r.Locals.ReleaseAll()
	}
	d := &record.Delta{Locals: r.Locals.Changes()}
	var err error
	if d.Record, d.Asked, err = r.Record.Changes(); err != nil {
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
