package hook

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// unpersisted tracks whether recorded data must be persisted before the next hook or tool is
// called. The hook or tool could act on the data outside the process.
type unpersisted struct {
	mu   sync.Mutex // serializes PersistOwed
	some atomic.Bool
}

// Persist waits until everything recorded is persisted, if the host is a [Keeper]. safe is set
// before an action that must not be repeated; the data then also survives a power failure.
func (r *Run) Persist(ctx context.Context, safe bool) error {
	k, ok := r.Host.(Keeper)
	if !ok {
		return nil
	}
	if err := k.Keep(ctx, safe); err != nil {
		return &ending.AbortedError{Cause: err}
	}
	r.unpersisted.some.Store(false)
	return nil
}

// PersistAnswer persists the answer of the model if a middleware receives it next: a wrapper, or the middleware that
// made the call. Otherwise it leaves that to PersistOwed, which runs before the next hook or tool. If there is none,
// the answer is persisted together with later data.
func (r *Run) PersistAnswer(ctx context.Context) error {
	waits := r.Scope != "" || len(r.path) > 0 // a middleware made the call
	for i := Outer; i < RingCount; i++ {
		waits = waits || len(r.In(i, contract.HookWrapModel)) > 0
	}
	if waits {
		return r.Persist(ctx, false)
	}
	r.unpersisted.some.Store(true)
	return nil
}

// PersistOwed waits until the data that PersistAnswer deferred is persisted.
func (r *Run) PersistOwed(ctx context.Context) error {
	if !r.unpersisted.some.Load() {
		return nil
	}
	r.unpersisted.mu.Lock()
	defer r.unpersisted.mu.Unlock()
	if !r.unpersisted.some.Load() {
		return nil
	}
	return r.Persist(ctx, false)
}

// endWrites marks the writes of a finished hook call for persisting. The writes of wrappers are
// persisted after the exchange that they wrap has ended.
func endWrites(ctx context.Context, c *Call) {
	var h *local.Hold
	if live(c.Hook) {
		h = local.HoldOf(ctx)
	}
	c.locals.End(h)
}

// Delta calls take with the changes since the last call of Delta. No hook records an answer while
// take runs, so that the changes belong to the events sent so far. If phaseEnds is set, the changes
// include the writes of wrappers, which will not be called again.
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

// Recording calls fn. The changes and events of fn are persisted together. fn must not call hooks.
func (r *Run) Recording(fn func()) {
	r.keeping.RLock()
	defer r.keeping.RUnlock()
	fn()
}
