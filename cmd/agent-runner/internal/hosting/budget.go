package hosting

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// Environment variables of the budget flags.
const (
	envMemory        = "AGENT_RUNNER_MEMORY"
	envCompileMemory = "AGENT_RUNNER_COMPILE_MEMORY"
	envCompileTime   = "AGENT_RUNNER_COMPILE_TIME"
)

// BudgetFlags adds the budget flags, which all commands have.
func BudgetFlags(cmd *cobra.Command, b *cli.Budget) {
	flags := cmd.PersistentFlags()
	flags.StringVar(
		&b.Memory,
		"memory",
		"",
		"memory limit for the modules of all runs, as a `SIZE` (default: $"+envMemory+", else half the memory of the machine or container)",
	)
	flags.StringVar(&b.CompileMemory, "compile-memory", "",
		"memory limit for compiling one module, as a `SIZE` (default: $"+envCompileMemory+", else 1GiB)")
	flags.StringVar(&b.CompileTime, "compile-time", "",
		"`TIME` limit for compiling one module (default: $"+envCompileTime+", else 30s)")
}

// applyBudget sets the limits in o to the values of the budget flags, or else of their
// environment variables.
func applyBudget(e *cli.Env, o *host.Options) error {
	b := &e.Budget
	size := func(flag, env, given string, to *int64) error {
		text := cmp.Or(given, e.Getenv(env))
		if text == "" {
			return nil
		}
		var n agentfile.Bytes
		if err := n.UnmarshalText([]byte(text)); err != nil {
			return cli.Usagef("%s: %w", written(flag, env, given), err)
		}
		*to = int64(n)
		return nil
	}
	if err := size("memory", envMemory, b.Memory, &o.MemoryBytes); err != nil || o.CompileChild == nil {
		return err
	}
	child := *o.CompileChild
	if err := size("compile-memory", envCompileMemory, b.CompileMemory, &child.MemoryBytes); err != nil {
		return err
	}
	if text := cmp.Or(b.CompileTime, e.Getenv(envCompileTime)); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return cli.Usagef("%s is %q; want a time with its unit, such as 30s",
				written("compile-time", envCompileTime, b.CompileTime), text)
		}
		child.Timeout = d
	}
	o.CompileChild = &child
	return nil
}

// written names the source of a value for errors: the flag if it is set, else the
// environment variable.
func written(flag, env, text string) string {
	if text != "" {
		return "--" + flag
	}
	return "$" + env
}
