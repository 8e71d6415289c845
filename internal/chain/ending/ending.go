package ending

import (
	"errors"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
)

// Endings are errors that end the run: a [Stop], a [Fault] of an entry whose
// faults fail the run, a limit of the run, a lack of memory, and the end of its context. No middleware
// catches them: next never returns, and the frames that wait in it are
// discarded from the inside out.

// IsEnding reports whether err ends the run.
func Is(err error) bool {
	return err != nil && (is[*LimitError](err) || is[*InterruptedError](err) || is[*StoppedError](err) || is[*FaultError](err) || is[*AbortedError](err) || is[*MemoryError](err))
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// AsError turns err into what middlewares and the model are told of it.
func AsError(err error, code abi.Code) *abi.Error {
	if known, ok := errors.AsType[*abi.Error](err); ok {
		return known
	}
	return &abi.Error{Code: code, Message: err.Error()}
}

// tidy makes a middleware's error safe to show. Modules outside it, the model
// and the caller are told of it.
func CleanError(e *abi.Error) *abi.Error {
	out := *e
	if !slices.Contains(abi.Codes(), out.Code) {
		out.Code = abi.CodeInternal
	}
	out.Message = safetext.Clip(out.Message, maxError)
	return &out
}

// maxError bounds the message of an error that a middleware made, in bytes.
const maxError = 8 << 10
