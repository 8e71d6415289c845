package remote

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewAgents returns the "agents" command.
func NewAgents(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "agents", Short: "Create, list and delete agents on a server"},
		agentsApply(e), agentsList(e), agentsShow(e), agentsRemove(e), agentsAlias(e))
}

func agentsApply(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{
		Use:   "apply FILE…",
		Short: "Create or update agents from files, and upload the modules they name",
		Long: `Creates or updates one agent for each agent.yaml. If a file names a module by path
(relative to the file), the module is uploaded first unless the server already has it,
and the stored file has its digest instead of the path. Digests, and names and versions
of modules on the server, are stored unchanged.

Each change creates a new version. Runs continue with the version they started with.
The file must contain the agent's name.`,
		Example: `  agent-runner agents apply agent.yaml
  agent-runner agents apply agents/*.yaml`,
	}, func(ctx context.Context, r *Session, args []string) error {
		applied := []*applied{}
		for _, path := range args {
			a, err := r.apply(ctx, path)
			if err != nil {
				return err
			}
			applied = append(applied, a)
			if r.Output == "text" {
				fmt.Fprintf(e.Out, "agent %s %s, version %d\n", a.Agent.Name, a.Did, a.Agent.Version)
			}
		}
		if r.Output == "json" {
			return cli.PrintJSON(e, applied)
		}
		return nil
	})
}

func agentsList(e *cli.Env) *cobra.Command {
	var name string
	cmd := Command(
		e,
		&cobra.Command{Use: "list", Short: "List agents with their newest version and their aliases",
			Long: "Lists the agents with the number and the modules of their newest version. ALIASES has the version of\n" +
				"each alias, such as stable=3."},
		func(ctx context.Context, r *Session, _ []string) error {
			list, err := client.Collect(0, func(p client.Page) ([]*api.Agent, string, error) {
				p.Name = name
				return r.Agents(ctx, p)
			})
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"AGENT", "VERSION", "ALIASES", "MODULES", "SINCE"}}
				for _, a := range list {
					var aliases, names []string
					for _, alias := range a.Aliases {
						aliases = append(aliases, fmt.Sprintf("%s=%d", alias.Alias, alias.Version))
					}
					for _, m := range a.Modules {
						names = append(names, m.Name)
					}
					rows = append(rows, []string{a.Name, fmt.Sprint(a.Version), cmp.Or(strings.Join(aliases, " "), "-"),
						strings.Join(names, " "), cli.Since(a.Created)})
				}
				return Table("no agents on "+r.Server(), rows)
			})
		},
	)
	return nameFlag(cmd, &name)
}

func agentsShow(e *cli.Env) *cobra.Command {
	var version int64
	cmd := Command(e, &cobra.Command{
		Use:   "show AGENT",
		Short: "Show an agent's modules and its agent.yaml",
		Long:  "Shows the newest version of an agent, or the one of AGENT@VERSION or AGENT@ALIAS.",
	},
		func(ctx context.Context, r *Session, args []string) error {
			a, err := r.Agent(ctx, args[0], version)
			if err != nil {
				return err
			}
			return r.Print(a, func() string {
				var b strings.Builder
				fmt.Fprintf(&b, "# agent %s, version %d, of %s\n", a.Name, a.Version, a.Created.Format("2006-01-02 15:04:05 MST"))
				return describe(&b, a.Modules, a.Warnings, a.YAML)
			})
		})
	cmd.Flags().Int64Var(&version, "version", 0, "version `N` (default: the newest)")
	return cmd
}

func agentsRemove(e *cli.Env) *cobra.Command {
	return Command(
		e,
		&cobra.Command{Use: "rm AGENT", Short: "Delete an agent with all its versions, but keep its runs"},
		func(ctx context.Context, r *Session, args []string) error {
			if err := r.DeleteAgent(ctx, args[0]); err != nil {
				return err
			}
			return r.Done(map[string]string{"agent": args[0], "did": "deleted"}, "deleted agent %s", args[0])
		},
	)
}
