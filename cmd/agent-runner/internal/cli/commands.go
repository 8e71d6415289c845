// Package cli contains what all commands share: their environment, errors and exit codes, the
// terminal, and the formatting of text.
package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-runner/agent-runner/internal/suggest"
)

// UnknownCommand returns an error that suggests a similar command. If no command is similar, it
// suggests running an agent if got could be a prompt for one, and otherwise lists the commands.
func UnknownCommand(cmd *cobra.Command, got string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := "want one of " + strings.Join(names, ", ")
	switch near := suggest.Closest(got, names); {
	case len(near) > 0:
		hint = fmt.Sprintf("did you mean %q?", near[0])
	case cmd.Parent() == nil && strings.ContainsAny(got, " ?"):
		hint = fmt.Sprintf("to ask an agent: %s run %q", cmd.CommandPath(), got)
	}
	return Usagef("unknown command %q for %s; %s", Short(got, 60), cmd.CommandPath(), hint)
}

// FlagError adds help to an error of flag parsing: similar flags, the kind of value that is
// wanted, or the command whose --help lists the flags.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		hint := "; see " + cmd.CommandPath() + " --help"
		if near := suggest.Closest(unknown.GetSpecifiedName(), names); len(near) > 0 {
			hint = "; did you mean --" + strings.Join(near[:min(2, len(near))], " or --") + "?"
		}
		return Usagef("%w%s", err, hint)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		want := map[string]string{"int": "a whole number", "duration": "a time with its unit, such as 30s"}[f.Value.Type()]
		if want != "" {
			return Usagef("--%s is %q; want %s", f.Name, invalid.GetValue(), want)
		}
	}
	return Usagef("%w; see %s --help", err, cmd.CommandPath())
}

// Group adds subcommands to cmd, and returns cmd. Without a subcommand, cmd prints its help. It rejects
// unknown subcommands.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args[0])
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(subcommands...)
	return cmd
}
