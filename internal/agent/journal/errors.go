package journal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// Errors of a [Journal]. Implementations wrap them.
var (
	// ErrFenced is the error of a write by somebody whose claim is not the last.
	ErrFenced = errors.New("the run was taken over by another process")
	// ErrBusy is the error of a claim while somebody else has one.
	ErrBusy = errors.New("the run is being run by another process")
	// ErrNoRun is the error where there is no such run.
	ErrNoRun = errors.New("there is no such run")
	// ErrExists is the error of creating a run that is there already.
	ErrExists = errors.New("there is a run of this id already")
	// ErrHandedBack is why a run ends here whose process is about to end.
	ErrReleased = errors.New("its process is about to end, and another one may go on with it")
	// ErrFinished is the error of resuming a run that has come to its end.
	ErrFinished = errors.New("the run has come to its end")
	// ErrAborted is the error of a Commit that gave up because of [Commit.Abort].
	// Nothing of the commit was persisted.
	ErrAborted = errors.New("the commit was aborted")
)

// A JournalError ends a run here, because the journal does: what was told of it
// is kept, and it can be resumed. It comes with an event that has no type.
type Error struct {
	Run string
	Err error
}

// Error says what became of the run.
func (e *Error) Error() string {
	return fmt.Sprintf("run %s goes no further here: %v", e.Run, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A WaitingError says that a run cannot go on without answers.
type WaitingError struct {
	Run     string
	Pending []abi.Pending
}

// Error names the interrupts.
func (e *WaitingError) Error() string {
	ids := make([]string, len(e.Pending))
	for i, p := range e.Pending {
		ids[i] = p.ID
	}
	return fmt.Sprintf("run %s waits for answers to %s", e.Run, strings.Join(ids, ", "))
}

// A PinError says that the agent's modules are not those the run began with.
type PinError struct {
	Run  string
	What string
}

// Error says what is different, and what to do.
func (e *PinError) Error() string {
	return fmt.Sprintf("run %s goes on with the modules that it began with: %s; resume it with an agent that has the same modules", e.Run, e.What)
}
