// Command agent-runner runs LLM agents whose middlewares are WebAssembly
// modules.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/spawner"
)

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
