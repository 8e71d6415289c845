package journal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// Errors of a [Journal]. Implementations may wrap them.
var (
	// ErrFenced rejects a write of a process that does not have the latest claim of the run.
	ErrFenced = errors.New("the run was taken over by another process")
	// ErrBusy rejects a claim of a run that another process executes, or has claimed since the run
	// was loaded.
	ErrBusy = errors.New("the run is being run by another process")
	// ErrNoRun reports that the run does not exist.
	ErrNoRun = errors.New("no such run")
	// ErrExists rejects the creation of a run whose ID exists.
	ErrExists = errors.New("there is a run of this id already")
	// ErrReleased ends a run in a process that is shutting down.
	ErrReleased = errors.New("its process is shutting down; another process can resume the run")
	// ErrFinished rejects resuming a run that has ended.
	ErrFinished = errors.New("the run has come to its end")
	// ErrLost rejects a commit to a run of which the journal has lost earlier lazy commits, because its
	// database failed. The run can be resumed from what the journal has.
	ErrLost = errors.New("the database failed and lost the run's last changes; a process can resume the run")
	// ErrAborted reports that a commit stopped because [Commit.Abort] was closed, and persisted
	// nothing.
	ErrAborted = errors.New("the commit was aborted")
)

// An Error ends a run in this process because the journal cannot be written, because another
// process has taken over the run, or because this process is shutting down. All events that the
// caller received are stored, and the run can be resumed. The error comes with an event without a
// type.
type Error struct {
	Run string
	Err error
}

// Error names the run and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("run %s cannot continue in this process: %v", e.Run, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A WaitingError rejects resuming a paused run without answers.
type WaitingError struct {
	Run     string
	Pending []abi.Pending
}

// Error names the interrupts that need an answer.
func (e *WaitingError) Error() string {
	ids := make([]string, len(e.Pending))
	for i, p := range e.Pending {
		ids[i] = p.ID
	}
	return fmt.Sprintf("run %s waits for answers to %s", e.Run, strings.Join(ids, ", "))
}

// A PinError rejects resuming a run with modules other than those it started with.
type PinError struct {
	Run  string
	What string // the first difference
}

// Error describes the difference and what to do.
func (e *PinError) Error() string {
	return fmt.Sprintf(
		"run %s must be resumed with the modules that it started with: %s; use an agent that has the same modules",
		e.Run,
		e.What,
	)
}
