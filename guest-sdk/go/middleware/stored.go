package middleware

import (
	"errors"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Stored is a durable value that all runs of the entry share, on every machine. It exists until
// it is deleted or its time to live ends. It needs the grant "store". Its methods fail with
// abi.CodeDenied without the grant, and with abi.CodeUnavailable if the host has no store. T is any
// type that can be encoded as JSON. Declare one with its key:
//
//	var seen = middleware.Stored[map[string]int]("seen")
//
// Changes take effect immediately, even if the hook fails. A hook that is called again after its run was cut off
// repeats its changes. Get, Load and Update also fail if the stored value cannot be decoded into a T.
type Stored[T any] string

// A Lifetime is a time.Duration. It is rounded down to whole seconds, but to at least one;
// nil, 0 and negative durations mean no expiry. Lifetime is an interface because importing
// time makes a module 0.3 MB larger.
type Lifetime interface{ Nanoseconds() int64 }

// Get returns the value. ok is false if there is none.
func (s Stored[T]) Get(ctx *Context) (value T, ok bool, err error) {
	value, version, err := s.Load(ctx)
	return value, version != 0, err
}

// Set sets the value without expiry.
func (s Stored[T]) Set(ctx *Context, value T) error { return s.SetFor(ctx, value, nil) }

// SetFor sets the value with a time to live.
func (s Stored[T]) SetFor(ctx *Context, value T, ttl Lifetime) error {
	return s.set(ctx, value, abi.LocalAlways, ttl)
}

// Delete removes the value. It succeeds even if there is none.
func (s Stored[T]) Delete(ctx *Context) error { return ctx.host.StoreDelete(string(s)) }

// Load returns the value and its version, which is 0 if there is none.
func (s Stored[T]) Load(ctx *Context) (value T, version int64, err error) {
	b, err := ctx.host.StoreGet(string(s))
	if err != nil || len(b) == 0 {
		return value, 0, err
	}
	if version, err = abijson.ReadLocal(b, &value); err != nil {
		return value, 0, jsoncodec.Wrap("stored "+strconv.Quote(string(s)), err)
	}
	return value, version, nil
}

// CompareAndSet sets the value with a time to live if its version is still the given one,
// and reports whether it did.
func (s Stored[T]) CompareAndSet(ctx *Context, value T, version int64, ttl Lifetime) (bool, error) {
	err := s.set(ctx, value, version, ttl)
	if failed, ok := errors.AsType[*abi.Error](err); ok && failed.Code == abi.CodeConflict {
		return false, nil
	}
	return err == nil, err
}

// Update sets the value to fn(old), with a time to live. old is the zero value if there is no
// value. If the value changes meanwhile, Update calls fn again with the new value. If fn fails,
// Update changes nothing.
func (s Stored[T]) Update(ctx *Context, ttl Lifetime, fn func(old T) (T, error)) error {
	for {
		old, version, err := s.Load(ctx)
		if err != nil {
			return err
		}
		value, err := fn(old)
		if err != nil {
			return err
		}
		if ok, err := s.CompareAndSet(ctx, value, version, ttl); ok || err != nil {
			return err
		}
	}
}

func (s Stored[T]) set(ctx *Context, value T, version int64, ttl Lifetime) error {
	b, err := ctx.encode(value)
	if err != nil {
		return jsoncodec.Wrap("stored "+strconv.Quote(string(s)), err)
	}
	seconds := int64(0)
	if ttl != nil && ttl.Nanoseconds() > 0 {
		seconds = max(1, ttl.Nanoseconds()/1e9)
	}
	_, err = ctx.host.StoreSet(string(s), b, version, seconds)
	return err
}

// A StoredCounter is a number that persists after the run, like a [Stored]. Adding to it is atomic.
type StoredCounter string

// Add adds delta and returns the new value.
func (c StoredCounter) Add(ctx *Context, delta int64) (int64, error) {
	b, err := ctx.host.StoreAdd(string(c), delta)
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, jsoncodec.Wrap("counter "+strconv.Quote(string(c)), err)
	}
	return value, nil
}

// Get returns the value, which is 0 initially.
func (c StoredCounter) Get(ctx *Context) (int64, error) {
	b, err := ctx.host.StoreGet(string(c))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	return countOf(string(c), b)
}

// Reset sets the counter to 0.
func (c StoredCounter) Reset(ctx *Context) error { return ctx.host.StoreDelete(string(c)) }
