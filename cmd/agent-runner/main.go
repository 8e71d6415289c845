// Command agent-runner runs LLM agents whose middlewares are WebAssembly
// modules.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/spawner"
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

func main() {
	if sandbox.IsCompileChild() {
		os.Exit(host.CompileChildMain())
	}
	if spawner.IsChild() {
		os.Exit(spawner.Main())
	}
	cobra.EnableCommandSorting = false // commands are listed in order of use
	e := &env{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, own: true, compile: &sandbox.ChildOptions{}}
	os.Exit(execute(context.Background(), e, os.Args[1:]))
}

// execute runs the command and returns its exit code.
func execute(ctx context.Context, e *env, args []string) int {
	cmd := newRoot(e)
	cmd.SetArgs(args)
	cmd.SetIn(e.in)
	cmd.SetOut(e.out)
	cmd.SetErr(e.err)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitAnswered
	}
	var ended *endedError
	code := exitUsage
	if errors.As(err, &ended) {
		code = ended.code
	}
	fmt.Fprintf(e.err, "agent-runner: %s\n", clean(err.Error()))
	return code
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
