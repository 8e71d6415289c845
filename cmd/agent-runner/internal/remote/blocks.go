package remote

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewBlocks returns the "blocks" command.
func NewBlocks(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "blocks", Short: "Block modules on a server (operator only)"},
		blocksAdd(e), blocksList(e), blocksRemove(e))
}

func blocksAdd(e *cli.Env) *cobra.Command {
	var reason string
	cmd := Command(e, &cobra.Command{
		Use:     "add DIGEST",
		Short:   "Block a module for all tenants, including in active runs",
		Example: `  agent-runner blocks add sha256:… --reason "sends conversations to a stranger"`,
	}, func(ctx context.Context, r *Session, args []string) error {
		if reason == "" {
			return cli.Usagef("tenants see why their runs end: give a reason with --reason TEXT")
		}
		if err := r.Block(ctx, args[0], reason); err != nil {
			return err
		}
		return r.Done(map[string]string{"digest": args[0], "did": "blocked"}, "%s is blocked", args[0])
	})
	cmd.Flags().StringVar(&reason, "reason", "", "the reason, as `TEXT` that tenants see")
	return cmd
}

func blocksList(e *cli.Env) *cobra.Command {
	return Command(
		e,
		&cobra.Command{Use: "list", Short: "List blocked modules"},
		func(ctx context.Context, r *Session, _ []string) error {
			list, err := client.Collect(0, func(p client.Page) ([]api.Block, string, error) { return r.Blocks(ctx, p) })
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"DIGEST", "SINCE", "REASON"}}
				for _, b := range list {
					rows = append(rows, []string{b.Digest, cli.Since(b.Created), b.Reason})
				}
				return Table("no blocked modules", rows)
			})
		},
	)
}

func blocksRemove(e *cli.Env) *cobra.Command {
	return Command(
		e,
		&cobra.Command{Use: "rm DIGEST", Short: "Unblock a module"},
		func(ctx context.Context, r *Session, args []string) error {
			if err := r.Unblock(ctx, args[0]); err != nil {
				return err
			}
			return r.Done(map[string]string{"digest": args[0], "did": "unblocked"}, "%s is unblocked", args[0])
		},
	)
}
