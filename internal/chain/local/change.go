package local

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
)

// A scopedKey identifies a run-local value.
type scopedKey struct{ scope, key string }

// A change records that one hook call changed a value.
type change struct {
	scopedKey
	delta int64 // the sum that the call added to a counter
}

// maxLinear is the number of changes up to which find searches the list without an index.
const maxLinear = 16

// changes lists the values that a hook call has changed, each once.
type changes struct {
	list  []change
	index map[scopedKey]int // indexes into list; nil below maxLinear changes
}

// add records a change of key k. If k has changed before, add only adds delta to the earlier
// change.
func (c *changes) add(k scopedKey, delta int64) {
	if i := c.find(k); i >= 0 {
		c.list[i].delta += delta
		return
	}
	c.list = append(c.list, change{k, delta})
	if c.index != nil {
		c.index[k] = len(c.list) - 1
	} else if len(c.list) == maxLinear {
		c.index = make(map[scopedKey]int, 2*maxLinear)
		for i := range c.list {
			c.index[c.list[i].scopedKey] = i
		}
	}
}

// find returns the index of the change of key k, or -1.
func (c *changes) find(k scopedKey) int {
	if c.index != nil {
		if i, ok := c.index[k]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(c.list, func(have change) bool { return have.scopedKey == k })
}

// A Change is the new state of a run-local value, for the host to persist.
type Change struct {
	Scope   string          `json:"scope"`
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value,omitempty"` // nil if the value was deleted
	Version int64           `json:"version,omitempty"`
}

// Changes returns the values that changed since the last call of Changes, sorted by scope and key.
// It leaves out additions to counters by calls in progress, because a new process would repeat
// those calls.
func (v *Values) Changes() []Change {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.dirty) == 0 {
		return nil
	}
	out := make([]Change, 0, len(v.dirty))
	for k := range v.dirty {
		have := v.scopes[k.scope][k.key]
		if n, err := strconv.ParseInt(string(have.Value), 10, 64); err == nil && v.pending[k] != 0 {
			have.Value = strconv.AppendInt(nil, n-v.pending[k], 10)
		}
		out = append(out, Change{k.scope, k.key, have.Value, have.Version})
	}
	v.countNotes(-len(v.dirty))
	clear(v.dirty)
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// Apply applies changes that [Values.Changes] returned in an earlier process. It must be called
// before v is used.
func (v *Values) Apply(list []Change) {
	for _, c := range list {
		v.lastVersion = max(v.lastVersion, c.Version)
		v.remove(c.Scope, c.Key)
		if c.Value == nil {
			continue
		}
		if v.scopes[c.Scope] == nil {
			v.scopes[c.Scope] = map[string]value{}
		}
		v.scopes[c.Scope][c.Key] = value{c.Value, c.Version}
		v.sizes[c.Scope] += len(c.Key) + len(c.Value)
	}
}
