package hook

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Values stores durable values of entries. All runs of an entry share its durable values.
// Versions and conflicts work as for run-local values, but each write takes effect at once.
type Values interface {
	// GetValue returns the value of key. ok is false if there is none.
	GetValue(ctx context.Context, s ValueScope, key string) (v contract.LocalValue, ok bool, err error)
	// SetValue sets key to value, which must be valid JSON, and returns the new version. The value
	// expires after ttl, or never if ttl is 0. Unless version is abi.LocalAlways, it fails with
	// abi.CodeConflict if the value has another version; a missing value has version 0.
	SetValue(
		ctx context.Context,
		s ValueScope,
		key string,
		value json.RawMessage,
		version int64,
		ttl time.Duration,
	) (int64, error)
	// DeleteValue deletes the value of key if it exists.
	DeleteValue(ctx context.Context, s ValueScope, key string) error
	// AddValue adds delta to a counter and returns the sum. It does not change the counter's
	// expiry.
	AddValue(ctx context.Context, s ValueScope, key string, delta int64) (int64, error)
}

// A ValueScope identifies the owner of durable values.
type ValueScope struct{ Tenant, Entry string }

// StoreGet returns the entry's durable value of key. ok is false if there is none. The error is an
// *abi.Error, or ends the run.
func (c *Call) StoreGet(ctx context.Context, key string) (v contract.LocalValue, ok bool, err error) {
	err = c.stored(func(s Values, scope ValueScope) error {
		v, ok, err = s.GetValue(ctx, scope, key)
		return err
	})
	return v, ok, err
}

// StoreSet sets a durable value at once; see [Values].
func (c *Call) StoreSet(
	ctx context.Context,
	key string,
	value json.RawMessage,
	version int64,
	ttl time.Duration,
) (now int64, err error) {
	err = c.stored(func(s Values, scope ValueScope) error {
		now, err = s.SetValue(ctx, scope, key, value, version, ttl)
		return err
	})
	return now, err
}

// StoreDelete deletes a durable value. The deletion takes effect at once.
func (c *Call) StoreDelete(ctx context.Context, key string) error {
	return c.stored(func(s Values, scope ValueScope) error { return s.DeleteValue(ctx, scope, key) })
}

// StoreAdd adds delta to a durable counter and returns the sum. The addition takes effect at once.
func (c *Call) StoreAdd(ctx context.Context, key string, delta int64) (sum int64, err error) {
	err = c.stored(func(s Values, scope ValueScope) error {
		sum, err = s.AddValue(ctx, scope, key, delta)
		return err
	})
	return sum, err
}

// stored calls do with the store and the scope of the entry's durable values. The time does not
// count as the hook's. Errors of the database are logged for the operator; the middleware receives
// an error that says that the values are unavailable.
func (c *Call) stored(do func(Values, ValueScope) error) error {
	values := c.run.Values
	if values == nil {
		return &abi.Error{Code: abi.CodeUnavailable, Message: "this host has no store for durable values"}
	}
	began := time.Now()
	err := do(values, ValueScope{Tenant: c.run.Tenant, Entry: c.member.Name})
	c.waited.Add(int64(time.Since(began)))
	var known *abi.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	default:
		c.Log(contract.LogError, "durable values: "+err.Error())
		return &abi.Error{Code: abi.CodeUnavailable, Retryable: true, Message: "the store of durable values is not available"}
	}
}
