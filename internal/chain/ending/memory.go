package ending

import (
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// LimitMemory is the memory limit of a run, as events and errors call it.
const LimitMemory = "run_memory_bytes"

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
func FromReservation(err error) error {
	if limit := (*account.LimitError)(nil); errors.As(err, &limit) {
		return &MemoryError{Level: string(limit.Level), Limit: limit.Limit, Err: err}
	}
	return &AbortedError{Cause: err}
}

// memoryFault makes the error of a reservation the fault of the entry that needs it.
func MemoryFault(err error) error {
	f := &FaultError{Stage: StageAnswer, Limit: LimitMemory, Cause: err}
	if limit := (*account.LimitError)(nil); errors.As(err, &limit) {
		f.Value = limit.Limit
	}
	return f
}

// memoryError makes the error of a reservation one that a middleware is told of.
func LimitOrAbort(what string, err error) error {
	if limit := (*account.LimitError)(nil); errors.As(err, &limit) {
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("%s: %v", what, err)}
	}
	return &AbortedError{Cause: err}
}

// memoryFailure makes the error of a reservation one of code limit, by which a call of
// the model or of a tool fails.
func LimitFailure(what string, err error) *abi.Error {
	return AsError(LimitOrAbort(what, err), abi.CodeLimit)
}
