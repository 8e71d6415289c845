// Package ending defines the errors that end or pause a run, and converts errors between the run,
// its middlewares and the model.
//
// An ending is an error that ends or pauses a run; [Is] reports whether an error is or wraps one. A
// run ends with a [StoppedError], a [FaultError] of an entry whose faults end the run, a
// [LimitError], a [MemoryError], or an [AbortedError]. An [InterruptedError] pauses the run.
// Middlewares cannot catch an ending: if a wrapped call ends the run, the host ignores the answers
// of the hooks that wait for that call.
//
// Of the packages of the chain, this one imports only safetext.
package ending

import (
	"errors"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Is reports whether err is or wraps an ending: an error that ends or pauses the run.
func Is(err error) bool {
	return err != nil &&
		(is[*LimitError](err) || is[*InterruptedError](err) || is[*StoppedError](err) || is[*FaultError](err) ||
			is[*AbortedError](err) || is[*MemoryError](err))
}

// is reports whether err or an error that it wraps has type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// AsError converts err to the error that middlewares and the model see: the [*abi.Error] that err
// contains or, if there is none, one with the given code and the text of err.
func AsError(err error, code abi.Code) *abi.Error {
	if known, ok := errors.AsType[*abi.Error](err); ok {
		return known
	}
	return &abi.Error{Code: code, Message: err.Error()}
}

// CleanError returns a middleware's error in a form that is safe to show to other modules, the
// model and the caller. It replaces an unknown code with [abi.CodeInternal], and truncates and
// cleans the message.
func CleanError(e *abi.Error) *abi.Error {
	out := *e
	if !slices.Contains(contract.Codes(), out.Code) {
		out.Code = abi.CodeInternal
	}
	out.Message = safetext.Clip(out.Message, maxError)
	return &out
}

// maxError is the maximum length of a middleware's error message, in bytes.
const maxError = 8 << 10
