package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server"
)

// Exit codes.
const (
	exitAnswered = 0
	exitFailed   = 1 // the run failed
	exitUsage    = 2 // wrong usage or a bad file; nothing ran
	exitStopped  = 3 // a module stopped the run
	exitPaused   = 4 // the run is waiting for an answer
	exitCanceled = 130
)

// An env is the process environment of the command. Tests replace it.
type env struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	// compile bounds the processes that compile modules; nil: this one does,
	// since it is not the command's own.
	compile *sandbox.ChildOptions
	// own reports whether the process is the command's own, so that serve may confine it.
	own bool
	// serving is called when serve begins to serve: a test acts as an attacker who runs
	// code in the server. Nil in the command.
	serving func(o *server.Options)
	// budget is what the host may use.
	budget budget
	// tinyGo builds source folders of Go modules with TinyGo.
	tinyGo bool
	// journal, if not nil, wraps the journal of runs. Tests use it to kill the process at
	// a write.
	journal func(journal.Journal) journal.Journal
}

// An endedError reports a run that ended without an answer, with the exit code. Any
// other error of the command means that nothing ran.
type endedError struct {
	code int
	err  error
}

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// usagef returns an error about wrong usage or input.
func usagef(format string, args ...any) error { return fmt.Errorf(format, args...) }

// A budget holds the resource limits of the host as the user wrote them.
type budget struct{ memory, compileMemory, compileTime string }

// beforeRun returns err, or a cancellation error if ctx is done.
func beforeRun(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &endedError{exitCanceled, errors.New("canceled before the run started")}
	}
	return err
}
