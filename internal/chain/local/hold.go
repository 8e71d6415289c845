package local

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// A Hold collects the changes that the wrappers of one exchange make. They are not persisted before
// the exchange ends: until then a new process would call the wrappers again, and they would repeat
// the changes.
type Hold struct{ changes map[scopedKey]int64 }

type holdKey struct{}

// WithHold returns ctx with a new hold, which replaces any other.
//
// A context carries the hold because an exchange may run another agent, as the
// tool that it calls, whose chain shares nothing else with this one.
func WithHold(ctx context.Context) (context.Context, *Hold) {
	h := &Hold{}
	return context.WithValue(ctx, holdKey{}, h), h
}

// HoldOf returns the hold that ctx carries, or nil.
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

// markDirty marks a value for persisting, with delta no longer pending. The caller holds the lock.
func (v *Values) markDirty(k scopedKey, delta int64) {
	if !v.dirty[k] {
		v.dirty[k] = true
		v.countNotes(1)
	}
	if v.pending[k] -= delta; v.pending[k] == 0 {
		delete(v.pending, k)
	}
}

// countNotes charges the memory of n more notes about changed keys, or returns it if n is negative.
// Such notes outlive the values of deleted keys. The caller holds the lock.
func (v *Values) countNotes(n int) {
	switch {
	case v.share == nil:
	case n > 0:
		v.share.Force(int64(n * size.Overhead))
	default:
		_ = v.share.Add(int64(n * size.Overhead))
	}
}

// Release marks the changes that h holds for persisting. The caller has recorded the outcome of h's
// exchange. A nil hold is ignored.
func (v *Values) Release(h *Hold) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.release(h)
}

// ReleaseAll releases all holds.
func (v *Values) ReleaseAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for h := range v.holds {
		v.release(h)
	}
}

// release is like Release, for callers that hold the lock.
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
