package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// An Error reports why a run failed. Each cause has its own type, for use with errors.As:
//
//	FinishReason   errors.As finds        fields
//	stopped        *ending.StoppedError   the entry and hook that stopped it, a reason and a code
//	canceled       *CanceledError         the cause of the caller's context; errors.Is context.Canceled
//	canceled       *BlockedError          also: the module that the operator blocks, and why
//	timeout        *TimeoutError          the timeout or deadline; errors.Is context.DeadlineExceeded
//	max_steps      *ending.LimitError     the limit of steps
//	limit          *ending.LimitError     which limit of model or tool calls, and of which tool
//	limit          *journal.FullError     the limit or quota of journal bytes
//	limit          *MemoryError           the level of the memory limit: the run's, the tenant's or the process's
//	error          *ending.FaultError     the failure of an entry: hook, stage, limit, cause, stderr
//	error          *ending.HookError      the entry and hook that returned an error, and the error
//	error          *ModelError            the error of the model, or of the entry that replaced it
//	error          *AdmissionError        the error of Options.Admit
//	error          *ExpiredError          when the paused run expired
//	error          *OverloadedError       the memory use of the process, which ended the run to free memory
//	error          *abi.Error             any other cause; see its code
//
// A paused run has not ended: its error is a *[PausedError], not an Error. A run with the finish
// reason stop or return_directly has no error. A run that reaches a limit of steps or calls has no
// error if OnLimit is LimitEnd, or if OnLimit is LimitAnswer or LimitRefuse and the model has
// written text in the run. That text is then the answer.
//
// The run_finished event has the same information for other languages: finish_reason, error with a
// code and, if a hook stopped the run, stopped_by, hook, reason and stop_code.
type Error struct {
	FinishReason string // one of package abi's Run constants
	StoppedBy    string // the entry that stopped the run, or ""
	Err          error  // one of the types above, or only its text if an earlier process recorded it
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A CanceledError ends a run that its caller or the operator canceled. A caller cancels a run if it
// stops taking events.
type CanceledError struct{ Cause error }

// Error describes the cause.
func (c *CanceledError) Error() string { return fmt.Sprintf("the run was canceled: %v", c.Cause) }

// Unwrap returns the cause of the context's end, and context.Canceled.
func (c *CanceledError) Unwrap() []error { return []error{c.Cause, context.Canceled} }

// A BlockedError is the cause of a [*CanceledError] if the operator blocks a module of the run. Of
// all causes of a CanceledError, run_finished reports only this one.
type BlockedError struct {
	Digest string // SHA-256 of the module in hexadecimal; empty if it is not disclosed
	Reason string // the operator's reason; reported only if Digest is set
}

// Error names the module and the operator's reason, if Digest is set.
func (b *BlockedError) Error() string {
	if b.Digest == "" {
		return "the operator blocks one of the modules around all agents"
	}
	return "the operator blocks module sha256:" + b.Digest + ": " + b.Reason
}

// An OverloadedError ends the run that used the most memory, because the process has too little.
type OverloadedError struct {
	Held  int64 // bytes that the run held
	Used  int64 // bytes that the process used
	Limit int64 // bytes that the process may use
}

// Error reports the memory use and says what to do about it.
func (e *OverloadedError) Error() string {
	return fmt.Sprintf(
		"the server ran out of memory (%d of %d bytes used), and this run used the most (%d bytes): use less memory in the run, or run it again later",
		e.Used,
		e.Limit,
		e.Held,
	)
}

// A TimeoutError ends a run that exceeded its timeout or the deadline of its caller's context.
type TimeoutError struct {
	After time.Duration // Options.Timeout; 0 if the caller's deadline ended the run
	Cause error
}

// Error names the timeout or the deadline.
func (t *TimeoutError) Error() string {
	if t.After > 0 {
		return fmt.Sprintf("the run did not end within its timeout of %v", t.After)
	}
	return fmt.Sprintf("the run did not end before its deadline: %v", t.Cause)
}

// Unwrap returns the cause of the context's end, and context.DeadlineExceeded.
func (t *TimeoutError) Unwrap() []error { return []error{t.Cause, context.DeadlineExceeded} }

// A ModelError ends a run whose model call failed and whose error no middleware replaced with an
// answer. If Source is "model", all retries and fallbacks failed.
type ModelError struct {
	Source string // "model", "host", or the entry that failed the call
	Err    *abi.Error
}

// Error returns the message of Err, which names the entry if an entry failed the call.
func (m *ModelError) Error() string { return m.Err.Error() }

// Unwrap returns the error.
func (m *ModelError) Unwrap() error { return m.Err }

// An AdmissionError ends a run for which Options.Admit returned an error.
type AdmissionError struct{ Err error }

// Error describes the cause.
func (e *AdmissionError) Error() string { return "the run cannot begin: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *AdmissionError) Unwrap() error { return e.Err }

// An ExpiredError ends a run that was paused for longer than Options.PauseTimeout.
type ExpiredError struct {
	Limit time.Duration // Options.PauseTimeout
	At    time.Time     // time until which the run could be resumed
}

// Error returns the timeout and the time at which it ended.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the run waited longer for an answer than it may (%v, until %s); begin another",
		e.Limit, e.At.UTC().Format(time.RFC3339))
}
