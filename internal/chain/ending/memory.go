package ending

import (
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// LimitMemory is the name of a run's memory limit in events and errors.
const LimitMemory = "run_memory_bytes"

// A MemoryError ends a run that needs more memory than the run, its tenant or the process may use.
type MemoryError struct {
	Level string // "run", "tenant" or "process"
	Limit int64  // bytes
	Err   error
}

// Error names the exceeded limit and says what to do about it.
func (e *MemoryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *MemoryError) Unwrap() error { return e.Err }

// FromReservation converts the error of a memory reservation to an error that ends the run. It
// returns a [*MemoryError] if a limit is exceeded. Otherwise, for example if the run's context is
// done, it returns an [*AbortedError].
func FromReservation(err error) error {
	if limit := (*account.LimitError)(nil); errors.As(err, &limit) {
		return &MemoryError{Level: string(limit.Level), Limit: limit.Limit, Err: err}
	}
	return &AbortedError{Cause: err}
}

// MemoryFault converts the error of a memory reservation to a fault of the entry for which the
// memory was reserved.
func MemoryFault(err error) error {
	f := &FaultError{Stage: StageAnswer, Limit: LimitMemory, Cause: err}
	if limit := (*account.LimitError)(nil); errors.As(err, &limit) {
		f.Value = limit.Limit
	}
	return f
}

// LimitOrAbort converts the error of a memory reservation. If a limit is exceeded, it returns an
// [*abi.Error] with the code [abi.CodeLimit] that a middleware can handle. Its message begins with
// what, the name of the operation. Otherwise LimitOrAbort returns an [*AbortedError].
func LimitOrAbort(what string, err error) error {
	if limit := (*account.LimitError)(nil); errors.As(err, &limit) {
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("%s: %v", what, err)}
	}
	return &AbortedError{Cause: err}
}

// LimitFailure converts the error of a memory reservation to an error with the code [abi.CodeLimit]
// that fails a model or tool call. Its message begins with what, the name of the operation, if a
// limit is exceeded.
func LimitFailure(what string, err error) *abi.Error {
	return AsError(LimitOrAbort(what, err), abi.CodeLimit)
}
