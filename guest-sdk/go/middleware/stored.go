package middleware

import (
	"errors"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
)

// A Stored is a value that outlives the run: all runs of the entry share it, on
// every machine, and it is there until somebody deletes it or its time to live
// is over. It needs the grant store; without it, or without a store, its methods
// fail with abi.CodeDenied or abi.CodeUnavailable. T is anything that JSON
// encodes. Declare one with its key:
//
//	var seen = middleware.Stored[map[string]int]("seen")
//
// What a method changes it changes at once, also if the hook fails. A hook that
// is called again, because its run was cut off, changes it again.
type Stored[T any] string

// A Lifetime is a time.Duration, of which whole seconds count, at least one. nil and
// 0 are for ever. It is an interface since a module that does not use time is 0.3 MB
// smaller without it.
type Lifetime interface{ Nanoseconds() int64 }

// Get returns the value, or false if there is none.
func (s Stored[T]) Get(ctx *Context) (value T, ok bool, err error) {
	value, version, err := s.Load(ctx)
	return value, version != 0, err
}

// Set sets the value, for ever.
func (s Stored[T]) Set(ctx *Context, value T) error { return s.SetFor(ctx, value, nil) }

// SetFor sets the value for a time.
func (s Stored[T]) SetFor(ctx *Context, value T, ttl Lifetime) error {
	return s.set(ctx, value, abi.LocalAlways, ttl)
}

// Delete removes the value. That there is none is no error.
func (s Stored[T]) Delete(ctx *Context) error { return ctx.host.StoreDelete(string(s)) }

// Load returns the value with its version, which is 0 if there is none.
func (s Stored[T]) Load(ctx *Context) (value T, version int64, err error) {
	b, err := ctx.host.StoreGet(string(s))
	if err != nil || len(b) == 0 {
		return value, 0, err
	}
	if version, err = abi.ReadLocal(b, &value); err != nil {
		return value, 0, abi.Wrap("stored "+strconv.Quote(string(s)), err)
	}
	return value, version, nil
}

// CompareAndSet sets the value, for a time as SetFor does, if its version is
// still the one that Load returned, and reports whether it was.
func (s Stored[T]) CompareAndSet(ctx *Context, value T, version int64, ttl Lifetime) (bool, error) {
	err := s.set(ctx, value, version, ttl)
	if failed, ok := errors.AsType[*abi.Error](err); ok && failed.Code == abi.CodeConflict {
		return false, nil
	}
	return err == nil, err
}

// Update sets the value, for a time as SetFor does, to what fn makes of the old
// one, the zero value if there was none. When somebody else changed it meanwhile,
// fn is called again with the new one. An error of fn changes nothing.
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
		return abi.Wrap("stored "+strconv.Quote(string(s)), err)
	}
	seconds := int64(0)
	if ttl != nil && ttl.Nanoseconds() > 0 {
		seconds = max(1, ttl.Nanoseconds()/1e9)
	}
	_, err = ctx.host.StoreSet(string(s), b, version, seconds)
	return err
}

// A StoredCounter is a number that outlives the run, as a [Stored] does, and is
// added to atomically.
type StoredCounter string

// Add adds delta and returns the new value.
func (c StoredCounter) Add(ctx *Context, delta int64) (int64, error) {
	b, err := ctx.host.StoreAdd(string(c), delta)
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, abi.Wrap("counter "+strconv.Quote(string(c)), err)
	}
	return value, nil
}

// Get returns the value, 0 if nothing was added yet.
func (c StoredCounter) Get(ctx *Context) (int64, error) {
	b, err := ctx.host.StoreGet(string(c))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	return countOf(string(c), b)
}

// Reset sets the counter to 0.
func (c StoredCounter) Reset(ctx *Context) error { return ctx.host.StoreDelete(string(c)) }
