package local

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// A Hold collects the changes of the wrappers of one exchange. The changes are persisted when the
// exchange has ended. A process that resumes the run before that calls the wrappers again, and they
// make the changes again.
type Hold struct{ changes map[scopedKey]int64 }

type holdKey struct{}

// WithHold returns ctx with a new hold, which replaces any other.
//
// The hold is in the context because an exchange may run another agent as the tool that it calls,
// and the chains of the two agents share nothing else.
func WithHold(ctx context.Context) (context.Context, *Hold) {
	h := &Hold{}
	return context.WithValue(ctx, holdKey{}, h), h
}

// HoldOf returns the hold in ctx, or nil.
func HoldOf(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// noteChanges marks changes for persisting: at once if h is nil, and otherwise when h is released.
func (v *Values) noteChanges(list []change, h *Hold) {
	if len(list) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range list {
		if h == nil {
			v.markDirty(c.scopedKey, c.delta)
			continue
		}
		v.holds[h] = true
		if _, known := h.changes[c.scopedKey]; !known {
			v.countNotes(1)
		}
		if h.changes == nil {
			h.changes = map[scopedKey]int64{}
		}
		h.changes[c.scopedKey] += c.delta
	}
}

// markDirty marks a value for persisting, and removes delta from its pending additions. The caller
// holds the lock.
func (v *Values) markDirty(k scopedKey, delta int64) {
	if !v.dirty[k] {
		v.dirty[k] = true
		v.countNotes(1)
	}
	if delta == 0 {
		return
	}
	if v.pending[k] -= delta; v.pending[k] == 0 {
		delete(v.pending, k)
	}
}

// countNotes counts the memory of n more records of changed keys, or uncounts it if n is negative.
// Such a record outlives the value of a deleted key. The caller holds the lock.
func (v *Values) countNotes(n int) {
	switch {
	case v.share == nil:
	case n > 0:
		v.share.Force(int64(n * size.Overhead))
	default:
		_ = v.share.Add(int64(n * size.Overhead))
	}
}

// Release marks the changes in h for persisting. The caller must have recorded the outcome of the
// exchange. A nil h is ignored.
func (v *Values) Release(h *Hold) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.release(h)
}

// ReleaseAll releases all holds of v.
func (v *Values) ReleaseAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for h := range v.holds {
		v.release(h)
	}
}

// release is like Release, for callers that have locked v.
func (v *Values) release(h *Hold) {
	if !v.holds[h] {
		return
	}
	delete(v.holds, h)
	for k, delta := range h.changes {
		v.markDirty(k, delta)
	}
	v.countNotes(-len(h.changes))
	clear(h.changes)
}
