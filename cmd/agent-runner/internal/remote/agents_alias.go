package remote

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

// agentsAlias returns the "agents alias" command.
func agentsAlias(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "alias",
		Short: "Set, list and delete the aliases of agents",
		Long: `An alias is a name of a version of an agent: with the alias stable at version 3, runs of
clerk@stable use version 3. Runs of clerk alone use the alias stable, too, or the newest
version if the agent has no such alias.`,
	}, aliasSet(e), aliasList(e), aliasMoves(e), aliasRemove(e))
}

func aliasSet(e *cli.Env) *cobra.Command {
	var reason string
	cmd := Command(e, &cobra.Command{
		Use:     "set AGENT ALIAS VERSION",
		Short:   "Set an alias of a version",
		Example: `  agent-runner agents alias set clerk stable 3 --reason "answers in French"`,
	}, func(ctx context.Context, r *Session, args []string) error {
		version, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil || version < 1 {
			return cli.Usagef("the version is %q; want a number, as listed by agent-runner agents list", args[2])
		}
		a, err := r.SetAlias(ctx, args[0], args[1], version, reason)
		if err != nil {
			return err
		}
		return r.Done(a, "%s@%s is version %d", args[0], a.Alias, a.Version)
	})
	cmd.Flags().StringVar(&reason, "reason", "", "the `TEXT` to store with the move")
	return cmd
}

func aliasList(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "list AGENT", Short: "List the aliases of an agent"},
		func(ctx context.Context, r *Session, args []string) error {
			list, err := client.Collect(0, func(p client.Page) ([]api.Alias, string, error) {
				return r.Aliases(ctx, args[0], p)
			})
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"ALIAS", "VERSION", "SINCE"}}
				for _, a := range list {
					rows = append(rows, []string{a.Alias, fmt.Sprint(a.Version), cli.Since(a.Updated)})
				}
				return Table("agent "+args[0]+" has no aliases", rows)
			})
		})
}

func aliasMoves(e *cli.Env) *cobra.Command {
	var limit ListLimit
	cmd := Command(e, &cobra.Command{Use: "moves AGENT ALIAS", Short: "List who moved an alias, newest first"},
		func(ctx context.Context, r *Session, args []string) error {
			rows, err := limit.Max()
			if err != nil {
				return err
			}
			list, err := client.Collect(rows, func(p client.Page) ([]api.AliasMove, string, error) {
				return r.AliasMoves(ctx, args[0], args[1], p)
			})
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"FROM", "TO", "BY", "WHEN", "REASON"}}
				for _, m := range list {
					rows = append(rows, []string{
						versionText(m.From), versionText(m.To), m.By, cli.Since(m.Created), m.Reason})
				}
				return Table(fmt.Sprintf("agent %s never had the alias %s", args[0], args[1]), rows)
			})
		})
	limit.Add(cmd, 20)
	return cmd
}

// versionText formats a version, or "-" for none.
func versionText(version int64) string {
	if version == 0 {
		return "-"
	}
	return strconv.FormatInt(version, 10)
}

func aliasRemove(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "rm AGENT ALIAS", Short: "Delete an alias of an agent"},
		func(ctx context.Context, r *Session, args []string) error {
			if err := r.DeleteAlias(ctx, args[0], args[1]); err != nil {
				return err
			}
			return r.Done(map[string]string{"agent": args[0], "alias": args[1], "did": "deleted"},
				"deleted alias %s of agent %s", args[1], args[0])
		})
}
