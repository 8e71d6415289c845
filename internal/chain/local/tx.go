package local

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Tx is the reads and writes of one hook call. It stages unconditional writes until [Tx.Commit].
// Writes with a version and additions to counters take effect at once. Its methods may be called
// concurrently.
type Tx struct {
	values *Values
	owner  *Owner
	meter  *account.Meter // counts the memory of staged writes; the caller of Begin releases it

	wrote   atomic.Bool // whether there were any writes; false saves Commit and End the lock
	mu      sync.Mutex
	staged  []write
	changed changes
}

// A write is a staged write. Its version is reserved when the write is staged, so that Set can
// return the version.
type write struct {
	key     string
	value   json.RawMessage
	delete  bool
	version int64
}

// size returns the approximate size of a staged write in bytes.
func (w *write) size() int64 { return int64(size.Overhead + len(w.key) + len(w.value)) }

// Begin starts a transaction of owner o. It counts the memory of staged writes in meter.
func (v *Values) Begin(o *Owner, meter *account.Meter) Tx {
	return Tx{values: v, owner: o, meter: meter}
}

// Get returns the value of key, including the transaction's own staged writes. ok is false if there
// is no value.
func (tx *Tx) Get(key string) (v contract.LocalValue, ok bool, err error) {
	if err := checkKey(key); err != nil {
		return v, false, err
	}
	if w, ok := tx.lastStaged(key); ok {
		return contract.LocalValue{Value: w.value, Version: w.version}, !w.delete, nil
	}
	have, ok := tx.values.get(tx.owner, key)
	return contract.LocalValue{Value: have.Value, Version: have.Version}, ok, nil
}

func (tx *Tx) lastStaged(key string) (write, bool) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	for _, w := range slices.Backward(tx.staged) {
		if w.key == key {
			return w, true
		}
	}
	return write{}, false
}

// Set sets key to a copy of val and returns the new version. With [abi.LocalAlways], it stages the
// write. With any other version, it writes at once, and fails with [abi.CodeConflict] if the value
// has another version. Set also returns an error if val is not JSON, if key is invalid or was set
// by a ring further out, or if a limit is exceeded. While it checks and copies a large value, it
// calls stop periodically, and fails with the error of stop. stop may be nil.
func (tx *Tx) Set(key string, val json.RawMessage, version int64, stop func() error) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	// First make the checks that neither read nor copy the value, since those take milliseconds for
	// 4 MB.
	if err := tx.checkSet(key, val, version); err != nil {
		return 0, err
	}
	if err := jsoncodec.ValidUntil(val, stop); err != nil {
		return 0, &abi.Error{
			Code:    abi.CodeInvalid,
			Message: "the value of run-local key " + key + " is not JSON: " + err.Error(),
		}
	}
	val, err := jsoncodec.CloneUntil(val, stop)
	if err != nil {
		return 0, err
	}
	if version == abi.LocalAlways {
		return tx.stage(write{key: key, value: val})
	}
	if err := tx.flush(key); err != nil {
		return 0, err
	}
	tx.note(key, 0)
	return tx.values.set(tx.owner, key, val, version)
}

// checkSet returns the error of a Set that would exceed a limit or has an outdated version. The
// write checks both again, since other calls may write in between.
func (tx *Tx) checkSet(key string, val json.RawMessage, version int64) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if version == abi.LocalAlways {
		return tx.checkStaged(key, val)
	}
	if len(key)+len(val) > maxBytes {
		return errFull()
	}
	for _, w := range tx.staged {
		if w.key == key {
			return nil // Set flushes the staged write first, which changes the version
		}
	}
	return tx.values.checkSet(tx.owner, key, version)
}

// Delete stages the deletion of key. It returns an error if key is invalid or was set by a ring
// further out, or if a limit is exceeded.
func (tx *Tx) Delete(key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	_, err := tx.stage(write{key: key, delete: true})
	return err
}

// Add adds delta to a counter at once and returns the sum. It returns an error if the value is not
// an integer, if key is invalid or was set by a ring further out, or if a limit is exceeded.
func (tx *Tx) Add(key string, delta int64) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if err := tx.flush(key); err != nil {
		return 0, err
	}
	n, err := tx.values.add(tx.owner, key, delta)
	if err == nil {
		tx.note(key, delta)
	}
	return n, err
}

// stage checks, counts and stages a write. It returns the version reserved for the write, or 0 for
// a deletion.
func (tx *Tx) stage(w write) (version int64, err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.checkStaged(w.key, w.value); err != nil {
		return 0, err
	}
	if err := tx.meter.Add(w.size()); err != nil {
		return 0, ending.LimitOrAbort("run-local values", err)
	}
	if w.version, err = tx.values.reserveVersion(tx.owner, w.key); err != nil {
		return 0, err
	}
	if w.delete {
		w.version = 0
	}
	tx.wrote.Store(true)
	tx.staged = append(tx.staged, w)
	return w.version, nil
}

// checkStaged returns an error if a staged write of key and val would exceed the limits of one hook
// call. The caller holds the lock.
func (tx *Tx) checkStaged(key string, val json.RawMessage) error {
	total := len(key) + len(val)
	for _, w := range tx.staged {
		total += len(w.key) + len(w.value)
	}
	if total > maxBytes || len(tx.staged) >= maxKeys {
		return &abi.Error{
			Code:    abi.CodeLimit,
			Message: fmt.Sprintf("a hook may write %d bytes and %d keys of run-local values", maxBytes, maxKeys),
		}
	}
	return nil
}

// flush applies the staged writes of key, or none of them if one fails. It is called before a write
// that takes effect at once.
func (tx *Tx) flush(key string) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	var writes []write
	for _, w := range tx.staged {
		if w.key == key {
			writes = append(writes, w)
		}
	}
	if err := tx.apply(writes); err != nil {
		return err
	}
	for i := range writes {
		_ = tx.meter.Add(-writes[i].size())
	}
	tx.staged = slices.DeleteFunc(tx.staged, func(w write) bool { return w.key == key })
	return nil
}

// Commit applies the staged writes in order. If a write fails, Commit applies none and returns the
// error.
func (tx *Tx) Commit() error {
	if !tx.wrote.Load() {
		return nil
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.apply(tx.staged); err != nil {
		return err
	}
	tx.staged = nil
	return nil
}

// apply applies staged writes, either all or none. The caller holds the lock.
func (tx *Tx) apply(writes []write) error {
	if len(writes) == 0 {
		return nil
	}
	return tx.values.commit(tx.owner, writes, func(k scopedKey) { tx.changed.add(k, 0) })
}

// note records that the call changes key. delta is the amount that it adds to a counter, or 0.
func (tx *Tx) note(key string, delta int64) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.wrote.Store(true)
	tx.changed.add(scopedKey{tx.owner.scope(key), key}, delta)
}

// End marks the changes of the transaction for persisting: at once if h is nil, and otherwise when
// h is released.
func (tx *Tx) End(h *Hold) {
	if !tx.wrote.Load() {
		return
	}
	tx.mu.Lock()
	list := tx.changed.list
	tx.changed = changes{}
	tx.mu.Unlock()
	tx.values.noteChanges(list, h)
}
