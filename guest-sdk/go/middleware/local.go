package middleware

import (
	"errors"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Local is a value that belongs to the run and persists when the module's memory is reset. It is
// available in every later hook of the run, including after an interrupt and after a
// crash of the host. T is any type that can be encoded as JSON. Declare one with its key:
//
//	var seen = middleware.Local[[]string]("seen")
//
// Each entry has its own keys. All entries of a ring share the keys that begin with [abi.SharedPrefix]. Errors of the
// host are of type *abi.Error. Get, Load and Update also fail if the stored value cannot be decoded into a T.
type Local[T any] string

// Get returns the value. ok is false if there is none.
func (l Local[T]) Get(ctx *Context) (value T, ok bool, err error) {
	value, version, err := l.Load(ctx)
	return value, version != 0, err
}

// Set sets the value. If the hook fails, the change is discarded.
func (l Local[T]) Set(ctx *Context, value T) error {
	return l.store(ctx, value, abi.LocalAlways)
}

// Delete removes the value. It succeeds even if there is none.
func (l Local[T]) Delete(ctx *Context) error { return ctx.host.LocalDelete(string(l)) }

// Load returns the value and its version, which is 0 if there is none.
func (l Local[T]) Load(ctx *Context) (value T, version int64, err error) {
	b, err := ctx.host.LocalGet(string(l))
	if err != nil || len(b) == 0 {
		return value, 0, err
	}
	if version, err = abijson.ReadLocal(b, &value); err != nil {
		return value, 0, jsoncodec.Wrap("local "+strconv.Quote(string(l)), err)
	}
	return value, version, nil
}

// CompareAndSet sets the value if its version is still the given one, and reports whether
// it did. The change takes effect immediately, even if the hook fails later.
func (l Local[T]) CompareAndSet(ctx *Context, value T, version int64) (bool, error) {
	err := l.store(ctx, value, version)
	if failed, ok := errors.AsType[*abi.Error](err); ok && failed.Code == abi.CodeConflict {
		return false, nil
	}
	return err == nil, err
}

// Update sets the value to fn(old), where old is the zero value if there is none. If
// another hook of the run changes the value meanwhile, Update calls fn again with the new
// value. If fn fails, Update changes nothing.
func (l Local[T]) Update(ctx *Context, fn func(old T) (T, error)) error {
	for {
		old, version, err := l.Load(ctx)
		if err != nil {
			return err
		}
		value, err := fn(old)
		if err != nil {
			return err
		}
		if ok, err := l.CompareAndSet(ctx, value, version); ok || err != nil {
			return err
		}
	}
}

func (l Local[T]) store(ctx *Context, value T, version int64) error {
	b, err := ctx.encode(value)
	if err != nil {
		return jsoncodec.Wrap("local "+strconv.Quote(string(l)), err)
	}
	_, err = ctx.host.LocalSet(string(l), b, version)
	return err
}

// A Counter is a number that belongs to the run, like a [Local]. Adding to it is atomic,
// including from concurrent hooks.
type Counter string

// Add adds delta and returns the new value. The change takes effect immediately.
func (c Counter) Add(ctx *Context, delta int64) (int64, error) {
	b, err := ctx.host.LocalAdd(string(c), delta)
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
func (c Counter) Get(ctx *Context) (int64, error) {
	b, err := ctx.host.LocalGet(string(c))
	if err != nil || len(b) == 0 {
		return 0, err
	}
	return countOf(string(c), b)
}

// Reset sets the counter to 0. If the hook fails, the change is discarded.
func (c Counter) Reset(ctx *Context) error { return ctx.host.LocalDelete(string(c)) }

// countOf decodes a counter without reflection.
func countOf(key string, b []byte) (int64, error) {
	var reply contract.LocalValue
	err := abijson.Read(b, (*abijson.LocalValue)(&reply))
	if err == nil {
		r := jsoncodec.NewReader(reply.Value)
		n := r.Int()
		if err = r.Err(); err == nil {
			return n, nil
		}
	}
	return 0, jsoncodec.Wrap("counter "+strconv.Quote(key), err)
}
