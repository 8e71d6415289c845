package local

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// commit applies a staged write. It reports false if the write deletes a key that does not exist.
func (v *Values) commit(o *Owner, w *write) (changed bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.checkWritable(o, w.key); err != nil {
		return false, err
	}
	if w.delete {
		_, had := v.scopes[o.scope(w.key)][w.key]
		v.remove(o.scope(w.key), w.key)
		return had, nil
	}
	return true, v.put(o, w.key, w.value, w.version)
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
