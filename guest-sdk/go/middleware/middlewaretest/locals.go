package middlewaretest

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// locals holds the run-local values. Plain sets and deletes apply when the hook succeeds;
// the other changes apply immediately.
type locals struct {
	values  map[string]contract.LocalValue
	version int64
	staged  map[string]*contract.LocalValue // the running hook's changes, by key; nil deletes the value
}

func (l *locals) begin() { l.staged = map[string]*contract.LocalValue{} }

func (l *locals) end(ok bool) {
	for key, value := range l.staged {
		switch {
		case !ok:
		case value == nil:
			delete(l.values, key)
		default:
			l.values[key] = *value
		}
	}
	l.staged = nil
}

// get returns the value of key, and whether there is one. It sees the changes that the running hook
// has staged.
func (l *locals) get(key string) (contract.LocalValue, bool) {
	if staged, ok := l.staged[key]; ok {
		if staged == nil {
			return contract.LocalValue{}, false
		}
		return *staged, true
	}
	value, ok := l.values[key]
	return value, ok
}

func (l *locals) next(value []byte) contract.LocalValue {
	l.version++
	return contract.LocalValue{Value: slices.Clone(value), Version: l.version}
}

// setNow changes a value immediately, discards its staged change and returns the new value. Adds
// and sets with a version use it.
func (l *locals) setNow(key string, value []byte) contract.LocalValue {
	next := l.next(value)
	l.values[key] = next
	delete(l.staged, key)
	return next
}

func checkKey(key string) error {
	if key == "" || len(key) > contract.MaxKey {
		return fail(abi.CodeInvalid, "a key has 1 to %d bytes, not %d", contract.MaxKey, len(key))
	}
	return nil
}

// LocalGet implements the import "local_get".
func (i *imports) LocalGet(key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	value, ok := i.h.locals.get(key)
	if !ok {
		return nil, nil
	}
	return abijson.Marshal(value)
}

// LocalDelete implements the import "local_delete".
func (i *imports) LocalDelete(key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	i.h.locals.staged[key] = nil
	return nil
}

// LocalSet implements the import "local_set".
func (i *imports) LocalSet(key string, value []byte, version int64) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if err := jsoncodec.Valid(value); err != nil {
		return nil, fail(abi.CodeInvalid, "the value of %q: %v", key, err)
	}
	l := &i.h.locals
	value = jsoncodec.Clone(value)
	if version == abi.LocalAlways {
		next := l.next(value)
		l.staged[key] = &next
		return abijson.Marshal(contract.LocalVersion{Version: next.Version})
	}
	if now, _ := l.get(key); now.Version != version {
		return nil, fail(abi.CodeConflict, "%q has version %d, not %d", key, now.Version, version)
	}
	return abijson.Marshal(contract.LocalVersion{Version: l.setNow(key, value).Version})
}

// LocalAdd implements the import "local_add".
func (i *imports) LocalAdd(key string, delta int64) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	value, ok := i.h.locals.get(key)
	var n int64
	if ok {
		if err := json.Unmarshal(value.Value, &n); err != nil {
			return nil, fail(abi.CodeInvalid, "%q is no integer", key)
		}
	}
	return i.h.locals.setNow(key, strconv.AppendInt(nil, n+delta, 10)).Value, nil
}

// Locals returns all run-local values.
func (h *Host) Locals() map[string]abi.JSON {
	out := make(map[string]abi.JSON, len(h.locals.values))
	for key, value := range maps.All(h.locals.values) {
		out[key] = value.Value
	}
	return out
}
