package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// get returns the value of key from the first of the owner's scopes that has one. It reports false
// if none has.
func (v *Values) get(o *Owner, key string) (value, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, scope := range o.scopes(key) {
		if have, ok := v.scopes[scope][key]; ok {
			return have, true
		}
	}
	return value{}, false
}

// checkWritable returns an error if key is a shared key that a ring outside the owner's has set.
// The caller holds the lock.
func (v *Values) checkWritable(o *Owner, key string) error {
	for _, scope := range o.scopes(key)[1:] {
		if _, ok := v.scopes[scope][key]; ok {
			return &abi.Error{Code: abi.CodeDenied, Message: "run-local key " + key + " belongs to a ring outside this module's"}
		}
	}
	return nil
}

// set sets key if the stored version equals version, or unconditionally if version is
// abi.LocalAlways. It stores val without a copy.
func (v *Values) set(o *Owner, key string, val json.RawMessage, version int64) (int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.checkVersion(o, key, version); err != nil {
		return 0, err
	}
	v.lastVersion++
	return v.lastVersion, v.put(o, key, val, v.lastVersion)
}

// checkSet returns the error with which set would fail because of the key's ring or version. It
// does not check limits.
func (v *Values) checkSet(o *Owner, key string, version int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.checkVersion(o, key, version)
}

// checkVersion is like checkSet, for callers that have locked v.
func (v *Values) checkVersion(o *Owner, key string, version int64) error {
	if err := v.checkWritable(o, key); err != nil {
		return err
	}
	if now := v.scopes[o.scope(key)][key].Version; version != abi.LocalAlways && version != now {
		return &abi.Error{
			Code:      abi.CodeConflict,
			Message:   fmt.Sprintf("run-local key %s has version %d, not %d", key, now, version),
			Retryable: true,
		}
	}
	return nil
}

// reserveVersion returns a new version for a staged write of key. It returns an error if the owner
// cannot write key.
func (v *Values) reserveVersion(o *Owner, key string) (int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.checkWritable(o, key); err != nil {
		return 0, err
	}
	v.lastVersion++
	return v.lastVersion, nil
}

// commit applies staged writes in order, either all or none. It calls note for each key that the
// writes set, or delete if it exists. If a write fails, commit restores the values of the earlier
// ones and calls note for none.
func (v *Values) commit(o *Owner, writes []write, note func(scopedKey)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := make([]value, len(writes)) // version 0 if there is none
	for i := range writes {
		w := &writes[i]
		before[i] = v.scopes[o.scope(w.key)][w.key]
		if err := v.apply(o, w); err != nil {
			for j, was := range slices.Backward(before[:i]) {
				v.restore(o.scope(writes[j].key), writes[j].key, was)
			}
			return err
		}
	}
	for i := range writes {
		if w := &writes[i]; !w.delete || before[i].Version != 0 {
			note(scopedKey{o.scope(w.key), w.key})
		}
	}
	return nil
}

// apply applies a staged write. The caller holds the lock.
func (v *Values) apply(o *Owner, w *write) error {
	if err := v.checkWritable(o, w.key); err != nil {
		return err
	}
	if w.delete {
		v.remove(o.scope(w.key), w.key)
		return nil
	}
	return v.put(o, w.key, w.value, w.version)
}

// restore sets key in a scope to was, a value that it had, or deletes key if was has version 0. It
// counts the memory of the value even above the limit. The caller holds the lock.
func (v *Values) restore(scope, key string, was value) {
	v.remove(scope, key)
	if was.Version == 0 {
		return
	}
	v.scopes[scope][key] = was
	v.sizes[scope] += len(key) + len(was.Value)
	if v.share != nil {
		v.share.Force(int64(len(key) + len(was.Value) + size.Overhead))
	}
}

// put sets key to val without a copy. It returns an error if that exceeds the limits of the scope
// or of the run's memory. The caller holds the lock.
func (v *Values) put(o *Owner, key string, val json.RawMessage, version int64) error {
	scope := o.scope(key)
	values := v.scopes[scope]
	if values == nil {
		values = map[string]value{}
		v.scopes[scope] = values
	}
	total := v.sizes[scope] + len(key) + len(val)
	old, had := values[key]
	if had {
		total -= len(key) + len(old.Value)
	}
	if total > maxBytes || !had && len(values) >= maxKeys {
		return errFull()
	}
	if v.share != nil {
		more := int64(total - v.sizes[scope])
		if !had {
			more += size.Overhead
		}
		if err := v.share.Add(more); err != nil {
			return ending.LimitOrAbort("run-local values", err)
		}
	}
	values[key], v.sizes[scope] = value{val, version}, total
	return nil
}

// remove deletes the value of key in a scope. The caller holds the lock.
func (v *Values) remove(scope, key string) {
	if old, ok := v.scopes[scope][key]; ok {
		v.sizes[scope] -= len(key) + len(old.Value)
		delete(v.scopes[scope], key)
		if v.share != nil {
			_ = v.share.Add(-int64(len(key) + len(old.Value) + size.Overhead))
		}
	}
}

// add adds delta to a counter and returns the sum. It records delta as pending until the hook call
// is persisted.
func (v *Values) add(o *Owner, key string, delta int64) (int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.checkWritable(o, key); err != nil {
		return 0, err
	}
	var n int64
	if have, ok := v.scopes[o.scope(key)][key]; ok {
		var err error
		if n, err = strconv.ParseInt(string(bytes.TrimSpace(have.Value)), 10, 64); err != nil {
			return 0, &abi.Error{Code: abi.CodeInvalid, Message: "run-local key " + key + " is not a whole number"}
		}
	}
	if sum := n + delta; (sum > n) != (delta > 0) && delta != 0 {
		return 0, &abi.Error{Code: abi.CodeInvalid, Message: "run-local key " + key + " would overflow"}
	}
	n += delta
	v.lastVersion++
	if err := v.put(o, key, strconv.AppendInt(nil, n, 10), v.lastVersion); err != nil {
		return 0, err
	}
	v.pending[scopedKey{o.scope(key), key}] += delta
	return n, nil
}
