package main

import (
	"github.com/spf13/cobra"
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
