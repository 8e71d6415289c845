package remote

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
)

// An agentList describes a list of items that belong to an agent, such as its replays. It can also
// list the items of all agents.
type agentList[T any] struct {
	read   func(c *client.Client, ctx context.Context, agent string, p client.Page) (rows []T, next string, err error)
	header []string
	row    func(*T) []string
}

// listOfAgent returns the command "list [AGENT]". none is the text that it prints if there are no
// rows, such as "no replays".
func listOfAgent[T any](e *cli.Env, short, none string, l *agentList[T]) *cobra.Command {
	return Command(e, &cobra.Command{Use: "list [AGENT]", Short: short},
		func(ctx context.Context, r *Session, args []string) error {
			agent := ""
			if len(args) > 0 {
				agent = args[0]
				none += " of agent " + agent
			}
			list, err := client.Collect(0, func(p client.Page) ([]T, string, error) { return l.read(r.Client, ctx, agent, p) })
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{l.header}
				for i := range list {
					rows = append(rows, l.row(&list[i]))
				}
				return Table(none, rows)
			})
		})
}
