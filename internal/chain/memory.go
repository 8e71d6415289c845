package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// LimitMemory is the memory limit of a run, as events and errors call it.
const LimitMemory = "run_memory_bytes"

// An Accountant is a Host that limits how much memory the run makes it hold.
type Accountant interface {
	// Account returns the account of the run, nil if nothing is counted.
	Account() *account.Account
	// AwaitMemory waits until the host can hold an event of n more bytes, and
	// returns an error if waiting will not help.
	AwaitMemory(ctx context.Context, n int64) error
	// HasMemory is AwaitMemory without waiting.
	HasMemory(n int64) error
}

// A MemoryError ends a run for which there is not enough memory.
type MemoryError struct {
	Level string // whose limit it is: run, tenant or process
	Limit int64  // bytes
	Err   error
}

// Error says whose limit it is, and what to do.
func (e *MemoryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *MemoryError) Unwrap() error { return e.Err }

// NewMemoryError makes the error of a reservation one that ends the run. Other errors
// are those of the run's context.
func NewMemoryError(err error) error {
	if limit := (*account.LimitError)(nil); errors.As(err, &limit) {
		return &MemoryError{Level: string(limit.Level), Limit: limit.Limit, Err: err}
	}
	return &Over{Cause: err}
}

// memoryFault makes the error of a reservation the fault of the entry that needs it.
func memoryFault(err error) error {
	f := &Fault{Stage: StageAnswer, Limit: LimitMemory, Cause: err}
	if limit := (*account.LimitError)(nil); errors.As(err, &limit) {
		f.Value = limit.Limit
	}
	return f
}

// memoryError makes the error of a reservation one that a middleware is told of.
func memoryError(what string, err error) error {
	if limit := (*account.LimitError)(nil); errors.As(err, &limit) {
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("%s: %v", what, err)}
	}
	return &Over{Cause: err}
}

// memoryFailure makes the error of a reservation one of code limit, by which a call of
// the model or of a tool fails.
func memoryFailure(what string, err error) *abi.Error {
	return AsError(memoryError(what, err), abi.CodeLimit)
}

// Hold counts n bytes that the host holds for the hook call, until its end. A negative n
// returns bytes before that. The error is a [*Fault].
func (c *Call) Hold(n int64) error {
	if err := c.held.Add(n); err != nil {
		return memoryFault(err)
	}
	return nil
}

// awaitMemory waits until the host can hold an event of n bytes that the hook makes.
// The time is not the hook's. It must be called without a lock that the journal or
// the caller of the run may need.
func (c *Call) awaitMemory(what string, n int) error {
	if c.run.accountant == nil {
		return nil
	}
	if c.divert != nil { // the event that is translated is in the way of others
		if err := c.run.accountant.HasMemory(int64(n)); err != nil {
			return memoryError(what, err)
		}
		return nil
	}
	return c.waitFor(func() error {
		if err := c.run.accountant.AwaitMemory(c.ctx, int64(n)); err != nil {
			return memoryError(what, err)
		}
		return nil
	})
}

// mayHold fails if the run's memory is full, before a hook makes more answers.
func (r *Run) mayHold(what string) error {
	if r.accountant == nil {
		return nil
	}
	a := r.accountant.Account()
	if err := a.TryReserve(1); err != nil {
		return memoryError(what, err)
	}
	a.Release(1)
	return nil
}
