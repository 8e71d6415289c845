package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// An Error says why a run came to no answer. Every way in which one ends has
// a type of its own, which errors.As finds in it:
//
//	FinishReason   errors.As finds            which says
//	stopped        *[ending.StoppedError]              the entry and hook that stopped it, a reason and a code
//	canceled       *[CanceledError]                the cause of the caller's context; errors.Is context.Canceled
//	canceled       *[BlockedError]                 also: the module that the operator blocks, and why
//	timeout        *[TimeoutError]                the time-out or deadline; errors.Is context.DeadlineExceeded
//	max_steps      *[ending.LimitError]           the limit of steps
//	limit          *[ending.LimitError]           which limit of model or tool calls, and of which tool
//	limit          *[JournalFullError]        the limit or quota of journal bytes
//	limit          *[MemoryError]             whose memory limit it is: the run's, the tenant's or the process's
//	error          *[ending.FaultError]             what an entry's code did: hook, stage, limit, cause, stderr
//	error          *[ending.HookError]            the entry and hook that returned an error, and the error
//	error          *[ModelError]              the model's error, or that of the entry that answered for it
//	error          *[AdmissionError]             why there was no room for the run
//	error          *[ExpiredError]                 since when the paused run could not be resumed
//	error          *[OverloadedError]         how much memory the process used, when it ended the run to have some
//	error          *abi.Error                 anything else: its code says what
//
// A run that pauses has not ended: its error is a *[PausedError] and no Error. With
// stop and return_directly there is no error, nor with max_steps and limit
// where the limits say that they are none.
//
// The run_finished event says the same for other languages: finish_reason,
// error with a code, and of a stop stopped_by, hook, reason and stop_code.
type Error struct {
	FinishReason string // one of package abi's Run constants
	StoppedBy    string // the entry that stopped it, if one did
	Err          error  // one of the types above
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A CanceledError is the end of a run whose caller canceled it, or took no further events.
type CanceledError struct{ Cause error }

// Error gives the cause.
func (c *CanceledError) Error() string { return fmt.Sprintf("the run was canceled: %v", c.Cause) }

// Is reports whether target is context.Canceled.
func (c *CanceledError) Is(target error) bool { return target == context.Canceled }

// Unwrap returns the cause of the context's end.
func (c *CanceledError) Unwrap() error { return c.Cause }

// A BlockedError is a cause to cancel a run with: its operator lets a module of it be called
// no more. Of the causes of a [*Canceled] it is the one that run_finished tells.
type BlockedError struct {
	Digest string // of the module, in hexadecimal; empty: it is not told which one
	Reason string // as the operator gave it; it is told with the digest alone
}

// Error says which module, and what the operator says of it.
func (b *BlockedError) Error() string {
	if b.Digest == "" {
		return "the operator blocks one of the modules around all agents"
	}
	return "the operator blocks module sha256:" + b.Digest + ": " + b.Reason
}

// An OverloadedError is a cause to cancel a run with: its process has too little memory, and
// the run held the most.
type OverloadedError struct {
	Held  int64 // bytes that the run held
	Used  int64 // bytes that the process used
	Limit int64 // bytes that the process may use
}

// Error says how much memory was used, and what to do.
func (e *OverloadedError) Error() string {
	return fmt.Sprintf("the server ran out of memory (%d of %d bytes used), and this run held the most (%d bytes): keep less in the run, or run it again later", e.Used, e.Limit, e.Held)
}

// A TimeoutError is the end of a run whose time was up.
type TimeoutError struct {
	After time.Duration // Options.Timeout; 0 where it was the deadline of the caller's context
	Cause error
}

// Error says which time was up.
func (t *TimeoutError) Error() string {
	if t.After > 0 {
		return fmt.Sprintf("the run did not end within its time-out of %v", t.After)
	}
	return fmt.Sprintf("the run did not end before its deadline: %v", t.Cause)
}

// Is reports whether target is context.DeadlineExceeded.
func (t *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Unwrap returns the cause of the context's end.
func (t *TimeoutError) Unwrap() error { return t.Cause }

// A ModelError is the end of a run whose model call failed, after all retries
// and fallbacks, and no middleware made up for it.
type ModelError struct {
	Source string // model, or the entry that failed the call
	Err    *abi.Error
}

// Error names the entry, if it was one, and gives the error.
func (m *ModelError) Error() string { return m.Err.Error() }

// Unwrap returns the error.
func (m *ModelError) Unwrap() error { return m.Err }

// An AdmissionError is the end of a run that never began: there was no room for it.
type AdmissionError struct{ Err error }

// Error says why.
func (e *AdmissionError) Error() string { return "the run cannot begin: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *AdmissionError) Unwrap() error { return e.Err }

// An ExpiredError is the end of a run that waited for answers longer than it may.
type ExpiredError struct {
	Limit time.Duration // Options.PauseTimeout
	At    time.Time     // until when it could go on
}

// Error says since when it cannot go on.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the run waited longer for an answer than it may (%v, until %s); begin another", e.Limit, e.At.UTC().Format(time.RFC3339))
}
