package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-runner/agent-runner/host/tool"
)

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "agent-runner",
		Short: "Runs LLM agents whose middlewares are WebAssembly modules",
		Example: `  agent-runner run "What is 17% of 2,340?"
  agent-runner run -m redact.wasm -m tool-policy.wasm --model gpt-4o-mini --root . "What does the README say?"
  agent-runner module inspect redact.wasm
  agent-runner serve`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	budgetFlags(root, &e.budget)
	addGroup(root, "Local commands:", newRun(e), newRuns(e), newModule(e))
	addGroup(root, "Server and login:", newServe(e), newLogin(e), newLogout(e), newWhoami(e))
	addGroup(root, "Tenant commands:", newModules(e), newAgents(e), newSecrets(e), newKeys(e), newUsage(e))
	addGroup(root, "Operator commands:", newTenants(e), newBlocks(e))
	root.AddCommand(newVersion(e))
	return root
}

// addGroup adds commands under one title in the help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// unknownCommand returns an error that suggests a similar command.
func unknownCommand(cmd *cobra.Command, got string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := "want one of " + strings.Join(names, ", ")
	switch near := tool.Closest(got, names); {
	case len(near) > 0:
		hint = fmt.Sprintf("did you mean %q?", near[0])
	case cmd.Parent() == nil && strings.ContainsAny(got, " ?"):
		hint = fmt.Sprintf("to ask an agent: %s run %q", cmd.CommandPath(), got)
	}
	return usagef("unknown command %q for %s; %s", short(got, 60), cmd.CommandPath(), hint)
}

// flagError explains an error of a flag, and suggests a similar one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		hint := "; see " + cmd.CommandPath() + " --help"
		if near := tool.Closest(unknown.GetSpecifiedName(), names); len(near) > 0 {
			hint = "; did you mean --" + strings.Join(near[:min(2, len(near))], " or --") + "?"
		}
		return usagef("%w%s", err, hint)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		want := map[string]string{"int": "a whole number", "duration": "a time with its unit, such as 30s"}[f.Value.Type()]
		if want != "" {
			return usagef("--%s is %q; want %s", f.Name, invalid.GetValue(), want)
		}
	}
	return usagef("%w; see %s --help", err, cmd.CommandPath())
}
