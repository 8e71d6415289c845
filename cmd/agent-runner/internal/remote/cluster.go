package remote

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/api"
)

// NewCluster returns the "cluster" command.
func NewCluster(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "cluster", Short: "Show the servers that share a database (operator only)"},
		clusterStatus(e))
}

func clusterStatus(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{
		Use:   "status",
		Short: "List the servers, with their runs and the age of their last heartbeat",
	}, func(ctx context.Context, r *Session, _ []string) error {
		nodes, err := r.Nodes(ctx)
		if err != nil {
			return err
		}
		if nodes == nil {
			nodes = []api.Node{}
		}
		return r.Print(nodes, func() string {
			rows := [][]string{{"NODE", "SERVER", "VERSION", "RUNS", "HEARTBEAT", "STATE"}}
			for i := range nodes {
				n := &nodes[i]
				rows = append(rows, []string{n.Node, n.Owner, n.Version, fmt.Sprint(n.Runs),
					fmt.Sprintf("%d ms ago", n.SeenMS), nodeState(n)})
			}
			return Table("the server shares its database with no other", rows)
		})
	})
}

// nodeState describes the state of a server in one or two words.
func nodeState(n *api.Node) string {
	switch {
	case n.Silent:
		return "silent"
	case n.Draining:
		return "draining"
	case n.Self:
		return "up, answers this"
	}
	return "up"
}
