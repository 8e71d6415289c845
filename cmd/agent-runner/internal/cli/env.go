package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/agent-runner/agent-runner/host/server"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
)

// Exit codes.
const (
	ExitAnswered = 0
	ExitFailed   = 1 // the run, the database or the server failed
	ExitUsage    = 2 // any other error, such as wrong usage or a bad file
	ExitStopped  = 3 // a module stopped the run
	ExitPaused   = 4 // the run is waiting for an answer
	ExitCanceled = 130
)

// An Env is the process environment of the command. Tests replace it.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// LookupEnv is like [os.LookupEnv]. If it is nil, variables that Getenv returns as empty are not set.
	LookupEnv func(string) (value string, set bool)
	// Compile limits the child processes that compile modules. If it is nil, this process
	// compiles, because it cannot start itself as a child.
	Compile *child.Options
	// Own reports whether the process is the command's own, so that serve may confine it.
	Own bool
	// Serving, if not nil, is called when the server starts to serve. Tests use it to run
	// code as an attacker would.
	Serving func(o *server.Options)
	// Budget limits the resources of the host.
	Budget Budget
	// TinyGo builds source folders of Go modules with TinyGo.
	TinyGo bool
	// Journal, if not nil, wraps the journal of runs. Tests use it to kill the process at
	// a write.
	Journal func(journal.Journal) journal.Journal
}

// An EndedError sets the exit code of the command. An error that is not an EndedError exits with
// ExitUsage.
type EndedError struct {
	Code int
	Err  error
}

// Error returns the message, or "" if the command printed it or has none.
func (e *EndedError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}
func (e *EndedError) Unwrap() error { return e.Err }

// Usagef returns an error about wrong usage or input.
func Usagef(format string, args ...any) error { return fmt.Errorf(format, args...) }

// A Budget holds the resource limits of the host as the user wrote them.
type Budget struct{ Memory, CompileMemory, CompileTime string }

// BeforeRun returns err, or an error with ExitCanceled if ctx is done. It is for errors that
// occur before the run starts.
func BeforeRun(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return Ended(ExitCanceled, errors.New("canceled before the run started"))
	}
	return err
}

// Ended returns err as an [*EndedError] with the exit code.
func Ended(code int, err error) error { return &EndedError{code, err} }

// Exited returns an error that sets the exit code of the command, and prints nothing.
func Exited(code int) error { return &EndedError{Code: code} }
