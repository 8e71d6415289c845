package chain

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// Values keep durable values of entries: they outlast a run, and all runs of an
// entry share them. Versions and conflicts are as those of run-local values;
// what a call changes it changes at once.
type Values interface {
	// GetValue returns a value; ok is false if there is none.
	GetValue(ctx context.Context, s ValueScope, key string) (v abi.LocalValue, ok bool, err error)
	// SetValue sets a value to valid JSON, for the time ttl, or for ever if that is
	// 0, and returns its version. With a version that is not abi.LocalAlways it
	// fails with abi.CodeConflict if the value has another one; 0 is that of a key
	// without a value.
	SetValue(ctx context.Context, s ValueScope, key string, value json.RawMessage, version int64, ttl time.Duration) (int64, error)
	// DeleteValue deletes a value, if there is one.
	DeleteValue(ctx context.Context, s ValueScope, key string) error
	// AddValue adds to a counter and returns its new value. Its time to live stays
	// as it is.
	AddValue(ctx context.Context, s ValueScope, key string, delta int64) (int64, error)
}

// A ValueScope says whose a durable value is.
type ValueScope struct{ Tenant, Entry string }
