package middlewaretest

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// stored holds the durable values. They persist when the module's memory is reset and
// when a run ends. Changes apply immediately.
type stored struct {
	values  map[string]contract.LocalValue
	expires map[string]time.Time
	version int64
}

// stored returns the value of key. Its version is 0 if the value does not exist or has expired by
// the run's clock, Run.NowMS.
func (i *imports) stored(key string) (contract.LocalValue, error) {
	if i.h.NoStore {
		return contract.LocalValue{}, fail(abi.CodeDenied, "store is not granted to this entry")
	}
	if err := checkKey(key); err != nil {
		return contract.LocalValue{}, err
	}
	s := &i.h.stored
	if at, ok := s.expires[key]; ok && at.UnixMilli() <= i.h.Run.NowMS {
		delete(s.values, key)
		delete(s.expires, key)
	}
	return s.values[key], nil
}

func (s *stored) set(key string, value []byte, expires time.Time) contract.LocalValue {
	if s.values == nil {
		s.values, s.expires = map[string]contract.LocalValue{}, map[string]time.Time{}
	}
	s.version++
	s.values[key] = contract.LocalValue{Value: append(abi.JSON(nil), value...), Version: s.version}
	delete(s.expires, key)
	if !expires.IsZero() {
		s.expires[key] = expires
	}
	return s.values[key]
}

// StoreGet implements the import "store_get".
func (i *imports) StoreGet(key string) ([]byte, error) {
	value, err := i.stored(key)
	if err != nil || value.Version == 0 {
		return nil, err
	}
	return abijson.Marshal(value)
}

// StoreDelete implements the import "store_delete".
func (i *imports) StoreDelete(key string) error {
	_, err := i.stored(key)
	delete(i.h.stored.values, key)
	return err
}

// StoreSet implements the import "store_set".
func (i *imports) StoreSet(key string, value []byte, version, ttl int64) ([]byte, error) {
	now, err := i.stored(key)
	if err != nil {
		return nil, err
	}
	if err := jsoncodec.Valid(value); err != nil {
		return nil, fail(abi.CodeInvalid, "the value of %q: %v", key, err)
	}
	if ttl < 0 {
		return nil, fail(abi.CodeInvalid, "a time to live of %d seconds", ttl)
	}
	if version != abi.LocalAlways && version != now.Version {
		return nil, fail(abi.CodeConflict, "%q has version %d, not %d", key, now.Version, version)
	}
	value = jsoncodec.Clone(value)
	var expires time.Time
	if ttl > 0 {
		expires = time.UnixMilli(i.h.Run.NowMS).Add(time.Duration(ttl) * time.Second)
	}
	return abijson.Marshal(contract.LocalVersion{Version: i.h.stored.set(key, value, expires).Version})
}

// StoreAdd implements the import "store_add".
func (i *imports) StoreAdd(key string, delta int64) ([]byte, error) {
	value, err := i.stored(key)
	if err != nil {
		return nil, err
	}
	var n int64
	if value.Version > 0 {
		if err := json.Unmarshal(value.Value, &n); err != nil {
			return nil, fail(abi.CodeInvalid, "%q is no integer", key)
		}
	}
	return i.h.stored.set(key, strconv.AppendInt(nil, n+delta, 10), i.h.stored.expires[key]).Value, nil
}

// SetStored sets a durable value, as an earlier run might have done.
func (h *Host) SetStored(key string, value any) error {
	b, err := abijson.Marshal(value)
	if err == nil {
		h.stored.set(key, b, time.Time{})
	}
	return err
}

// Stored returns all durable values, including expired ones that have not been read
// since.
func (h *Host) Stored() map[string]abi.JSON {
	out := make(map[string]abi.JSON, len(h.stored.values))
	for key, value := range h.stored.values {
		out[key] = value.Value
	}
	return out
}
