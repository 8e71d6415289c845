package chain

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// Limits of run-local values.
const (
	maxLocalBytes = 4 << 20 // of one entry, or of what a ring shares: keys and values
	maxLocalKeys  = 4096
)

// Locals are the run-local values of all entries of a run. They are a plain
// value that is kept with the run: it survives pauses and restarts.
type Locals struct {
	mu     sync.Mutex
	last   int64 // version
	scopes map[string]map[string]localValue
	sizes  map[string]int // of the scopes: keys and values, bytes

	dirty map[localKey]bool  // changed since they were kept
	open  map[localKey]int64 // what calls under way have added to counters
	holds map[*hold]bool     // what changed in exchanges that are under way

	share *account.Share // of the run's memory; nil: it is not counted
}

type localValue struct {
	Value   json.RawMessage `json:"value"`
	Version int64           `json:"version"`
}

// NewLocals returns the values of a new run: none.
func NewLocals() *Locals {
	return &Locals{scopes: map[string]map[string]localValue{}, sizes: map[string]int{},
		dirty: map[localKey]bool{}, open: map[localKey]int64{}, holds: map[*hold]bool{}}
}

// Count counts the values in an account, which has room for those that are there
// already. Nil ends that.
func (l *Locals) Count(a *account.Account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.share != nil {
		_ = l.share.Set(0)
		l.share = nil
	}
	if a == nil {
		return
	}
	l.share = account.NewShare(a)
	for scope, values := range l.scopes {
		l.share.Force(int64(l.sizes[scope] + len(values)*overhead))
	}
}

// MarshalJSON writes all values with their versions.
func (l *Locals) MarshalJSON() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return abi.Marshal(l.scopes)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *Locals) UnmarshalJSON(b []byte) error {
	scopes := map[string]map[string]localValue{}
	if err := json.Unmarshal(b, &scopes); err != nil {
		return err
	}
	fresh := NewLocals()
	l.scopes, l.sizes, l.last, l.dirty, l.open, l.holds = scopes, fresh.sizes, 0, fresh.dirty, fresh.open, fresh.holds
	for scope, values := range scopes {
		for key, v := range values {
			l.last = max(l.last, v.Version)
			l.sizes[scope] += len(key) + len(v.Value)
		}
	}
	return nil
}

// scope is where a member's key lives: its own, or its ring's for shared keys.
func (m *member) scope(key string) string { return m.owners(key)[0] }

// ringScopes are where shared keys live, from inside out.
var ringScopes = [...]string{"ring:" + Inner.String(), "ring:" + Tenant.String(), "ring:" + Outer.String()}

// owners are the scopes in which a member finds a key: shared keys of the
// rings outside its own can be read.
func (m *member) owners(key string) []string {
	if strings.HasPrefix(key, abi.SharedPrefix) {
		return ringScopes[Inner-m.Ring:]
	}
	return m.own
}

// ownScope is where the keys of an entry live that are not shared: those of chains of
// different scopes are apart.
func ownScope(chain, entry string) []string {
	if chain != "" {
		return []string{"agent:" + chain + "/entry:" + entry}
	}
	return []string{"entry:" + entry}
}

// A localWrite waits for its hook to succeed. Its version is taken when it
// is made, so that the middleware knows it at once.
type localWrite struct {
	key     string
	value   json.RawMessage
	delete  bool
	version int64
}

// size is about how many bytes a write takes while it waits.
func (w *localWrite) size() int64 { return int64(overhead + len(w.key) + len(w.value)) }

func checkKey(key string) error {
	if key == "" {
		return &abi.Error{Code: abi.CodeInvalid, Message: "a run-local key is empty"}
	}
	if len(key) > abi.MaxKey {
		return &abi.Error{Code: abi.CodeLimit, Message: "a run-local key has at most " + strconv.Itoa(abi.MaxKey) + " bytes"}
	}
	return nil
}

func (l *Locals) get(m *member, key string) (localValue, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, scope := range m.owners(key) {
		if v, ok := l.scopes[scope][key]; ok {
			return v, true
		}
	}
	return localValue{}, false
}

// writable refuses shared keys that a ring outside the member's has set.
func (l *Locals) writable(m *member, key string) error {
	for _, scope := range m.owners(key)[1:] {
		if _, ok := l.scopes[scope][key]; ok {
			return &abi.Error{Code: abi.CodeDenied, Message: "run-local key " + key + " belongs to a ring outside this module's"}
		}
	}
	return nil
}

// set sets a key if its version is still version, or unconditionally for
// abi.LocalAlways. It keeps value.
func (l *Locals) set(m *member, key string, value json.RawMessage, version int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.settable(m, key, version); err != nil {
		return 0, err
	}
	l.last++
	return l.last, l.put(m, key, value, l.last)
}

// checkSet returns the error of a set with that version, except that of its size.
func (l *Locals) checkSet(m *member, key string, version int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settable(m, key, version)
}

// settable is checkSet for callers that hold the lock.
func (l *Locals) settable(m *member, key string, version int64) error {
	if err := l.writable(m, key); err != nil {
		return err
	}
	if now := l.scopes[m.scope(key)][key].Version; version != abi.LocalAlways && version != now {
		return &abi.Error{Code: abi.CodeConflict, Retryable: true,
			Message: "run-local key " + key + " has version " + strconv.FormatInt(now, 10) + ", not " + strconv.FormatInt(version, 10)}
	}
	return nil
}

// reserve refuses a write that could not be made, and takes a version for it.
func (l *Locals) reserve(m *member, key string) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(m, key); err != nil {
		return 0, err
	}
	l.last++
	return l.last, nil
}

// commit makes a write that waited, and reports whether it changed anything: to delete
// a key that is not there does not.
func (l *Locals) commit(m *member, w localWrite) (changed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(m, w.key); err != nil {
		return false, err
	}
	if w.delete {
		_, had := l.scopes[m.scope(w.key)][w.key]
		l.remove(m.scope(w.key), w.key)
		return had, nil
	}
	return true, l.put(m, w.key, w.value, w.version)
}

// put stores a value within the limits, which is not to be changed any more. Its
// callers hold the lock.
func (l *Locals) put(m *member, key string, value json.RawMessage, version int64) error {
	scope := m.scope(key)
	values := l.scopes[scope]
	if values == nil {
		values = map[string]localValue{}
		l.scopes[scope] = values
	}
	size := l.sizes[scope] + len(key) + len(value)
	old, had := values[key]
	if had {
		size -= len(key) + len(old.Value)
	}
	if size > maxLocalBytes || !had && len(values) >= maxLocalKeys {
		return errLocalsFull()
	}
	if l.share != nil {
		more := int64(size - l.sizes[scope])
		if !had {
			more += overhead
		}
		if err := l.share.Add(more); err != nil {
			return memoryError("run-local values", err)
		}
	}
	values[key], l.sizes[scope] = localValue{value, version}, size
	return nil
}

func errLocalsFull() error {
	return &abi.Error{Code: abi.CodeLimit, Message: "run-local values are limited to " +
		strconv.Itoa(maxLocalBytes) + " bytes and " + strconv.Itoa(maxLocalKeys) + " keys"}
}

// remove deletes a value. Its callers hold the lock.
func (l *Locals) remove(scope, key string) {
	if v, ok := l.scopes[scope][key]; ok {
		l.sizes[scope] -= len(key) + len(v.Value)
		delete(l.scopes[scope], key)
		if l.share != nil {
			_ = l.share.Add(-int64(len(key) + len(v.Value) + overhead))
		}
	}
}

func (l *Locals) add(m *member, key string, delta int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(m, key); err != nil {
		return 0, err
	}
	var n int64
	if v, ok := l.scopes[m.scope(key)][key]; ok {
		var err error
		if n, err = strconv.ParseInt(string(bytes.TrimSpace(v.Value)), 10, 64); err != nil {
			return 0, &abi.Error{Code: abi.CodeInvalid, Message: "run-local key " + key + " is not a whole number"}
		}
	}
	if sum := n + delta; (sum > n) != (delta > 0) && delta != 0 {
		return 0, &abi.Error{Code: abi.CodeInvalid, Message: "run-local key " + key + " would overflow"}
	}
	n += delta
	l.last++
	if err := l.put(m, key, strconv.AppendInt(nil, n, 10), l.last); err != nil {
		return 0, err
	}
	l.open[localKey{m.scope(key), key}] += delta
	return n, nil
}
