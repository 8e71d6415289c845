package main

import (
	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/gateway"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/modules"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/remote"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/run"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/serve"
)

// newRoot returns the agent-runner command with all its subcommands.
func newRoot(e *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "agent-runner",
		Short: "Runs LLM agents whose middlewares are WebAssembly modules",
		Example: `  agent-runner run 'calculator {"expression": "0.17 * 2340"}'
  agent-runner run -m redact.wasm -m tool-policy.wasm --model gpt-4o-mini --root . "What does the README say?"
  agent-runner module inspect redact.wasm
  agent-runner serve`,
		Version:       cli.VersionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(cli.FlagError)
	hosting.BudgetFlags(root, &e.Budget)
	addGroup(root, "Local commands:", run.NewRun(e), run.NewRuns(e), modules.NewModule(e))
	addGroup(root, "Programs that you have:", gateway.NewWrap(e), gateway.New(e))
	addGroup(root, "Server and login:", serve.NewServe(e), remote.NewLogin(e), remote.NewLogout(e), remote.NewWhoami(e))
	addGroup(
		root,
		"Tenant commands:",
		remote.NewModules(e),
		remote.NewAgents(e),
		remote.NewReplays(e),
		remote.NewRollouts(e),
		remote.NewThreads(e),
		remote.NewRoutes(e),
		remote.NewSecrets(e),
		remote.NewKeys(e),
		remote.NewTokens(e),
		remote.NewCORS(e),
		remote.NewUsage(e),
	)
	addGroup(
		root,
		"Operator commands:",
		remote.NewTenants(e),
		remote.NewBlocks(e),
		remote.NewCluster(e),
		serve.NewStore(e),
	)
	addGroup(root, "People and audit:", remote.NewMembers(e), remote.NewGroups(e), remote.NewAudit(e))
	cli.Group(root, cli.NewVersion(e))
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
