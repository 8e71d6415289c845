package rerun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// Limits on the durable values of a pass.
const (
	maxValues     = 10_000
	maxValueBytes = 16 << 20 // of keys and values together
)

// values holds the durable values of a pass in memory. They never expire, because a pass is short.
type values struct {
	mu    sync.Mutex
	rows  map[valueKey]contract.LocalValue
	bytes int
	last  int64 // the last version
}

type valueKey struct {
	hook.ValueScope
	key string
}

var _ hook.Values = (*values)(nil)

func valueError(code abi.Code, format string, args ...any) error {
	return &abi.Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: code == abi.CodeConflict}
}

// checkKey rejects invalid keys.
func checkKey(key string) error {
	if key == "" || len(key) > contract.MaxKey || bytes.IndexByte([]byte(key), 0) >= 0 {
		return valueError(abi.CodeInvalid, "the durable key is empty, too long, or contains a zero byte")
	}
	return nil
}

// GetValue implements [hook.Values].
func (v *values) GetValue(
	_ context.Context,
	s hook.ValueScope,
	key string,
) (value contract.LocalValue, ok bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, ok = v.rows[valueKey{s, key}]
	return value, ok, checkKey(key)
}

// SetValue implements [hook.Values].
func (v *values) SetValue(
	_ context.Context,
	s hook.ValueScope,
	key string,
	value json.RawMessage,
	version int64,
	_ time.Duration,
) (int64, error) {
	if err := jsoncodec.Valid(value); err != nil {
		return 0, valueError(abi.CodeInvalid, "the value of durable key %s is not JSON: %v", key, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if before := v.rows[valueKey{s, key}]; version != abi.LocalAlways && version != before.Version {
		return 0, valueError(abi.CodeConflict, "durable key %s has version %d, not %d", key, before.Version, version)
	}
	return v.set(valueKey{s, key}, bytes.Clone(value))
}

// set stores a value. The caller holds mu.
func (v *values) set(key valueKey, value json.RawMessage) (version int64, err error) {
	if err := checkKey(key.key); err != nil {
		return 0, err
	}
	before, exists := v.rows[key]
	size := v.bytes + len(value) - len(before.Value)
	if !exists {
		size += len(key.key)
	}
	if size > maxValueBytes || !exists && len(v.rows) >= maxValues {
		return 0, valueError(abi.CodeLimit, "the durable values of a replay have at most %d keys and %d bytes",
			maxValues, maxValueBytes)
	}
	v.bytes = size
	v.last++
	v.rows[key] = contract.LocalValue{Value: value, Version: v.last}
	return v.last, nil
}

// DeleteValue implements [hook.Values].
func (v *values) DeleteValue(_ context.Context, s hook.ValueScope, key string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if before, ok := v.rows[valueKey{s, key}]; ok {
		v.bytes -= len(before.Value) + len(key)
		delete(v.rows, valueKey{s, key})
	}
	return checkKey(key)
}

// AddValue implements [hook.Values].
func (v *values) AddValue(_ context.Context, s hook.ValueScope, key string, delta int64) (int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var n int64
	if before, ok := v.rows[valueKey{s, key}]; ok {
		var err error
		if n, err = strconv.ParseInt(string(bytes.TrimSpace(before.Value)), 10, 64); err != nil {
			return 0, valueError(abi.CodeInvalid, "the value of durable key %s is not an integer", key)
		}
	}
	sum := n + delta
	if delta != 0 && (sum > n) != (delta > 0) {
		return 0, valueError(abi.CodeInvalid, "the value of durable key %s would overflow", key)
	}
	_, err := v.set(valueKey{s, key}, strconv.AppendInt(nil, sum, 10))
	return sum, err
}
