// Command agent-runner runs LLM agents whose middlewares are WebAssembly
// modules.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/spawner"
)

func main() {
	if code, ok := host.CompileChildMain(); ok {
		os.Exit(code)
	}
	if spawner.IsChild() {
		os.Exit(spawner.Main())
	}
	cobra.EnableCommandSorting = false // commands are listed in order of use
	e := &cli.Env{
		In:        os.Stdin,
		Out:       os.Stdout,
		Err:       os.Stderr,
		Getenv:    os.Getenv,
		LookupEnv: os.LookupEnv,
		Own:       true,
		Compile:   &child.Options{},
	}
	os.Exit(execute(context.Background(), e, os.Args[1:]))
}

// execute runs the command, prints its error to e.Err, and returns its exit code.
func execute(ctx context.Context, e *cli.Env, args []string) int {
	cmd := newRoot(e)
	cmd.SetArgs(args)
	cmd.SetIn(e.In)
	cmd.SetOut(e.Out)
	cmd.SetErr(e.Err)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return cli.ExitAnswered
	}
	var ended *cli.EndedError
	code := cli.ExitUsage
	if errors.As(err, &ended) {
		code = ended.Code
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(e.Err, "agent-runner: %s\n", cli.Clean(text))
	}
	return code
}
