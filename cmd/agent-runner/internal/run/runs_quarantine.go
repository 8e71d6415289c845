package run

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/remote"
	"github.com/agent-runner/agent-runner/host/client"
)

// runsQuarantined returns the command that lists quarantined runs, which no server resumes.
func runsQuarantined(e *cli.Env) *cobra.Command {
	return remote.Command(
		e,
		&cobra.Command{Use: "quarantined", Short: "List runs that ended the server that ran them: for a server's operator"},
		func(ctx context.Context, r *remote.Session, _ []string) error {
			list, err := client.Collect(0,
				func(p client.Page) ([]api.QuarantinedRun, string, error) { return r.Quarantined(ctx, p) })
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"RUN", "TENANT", "SINCE", "NODE", "HELD", "OF", "REASON"}}
				for _, q := range list {
					rows = append(rows,
						[]string{q.Run, q.Tenant, cli.Since(q.Created), q.Node, cli.Size(q.HeldBytes), cli.Size(q.ShareBytes), q.Reason})
				}
				return remote.Table("no run is quarantined", rows)
			})
		},
	)
}

// runsRelease returns the command that lets servers resume a quarantined run.
func runsRelease(e *cli.Env) *cobra.Command {
	return remote.Command(
		e,
		&cobra.Command{Use: "release RUN", Short: "Let a quarantined run be resumed: for a server's operator"},
		func(ctx context.Context, r *remote.Session, args []string) error {
			if err := r.ReleaseRun(ctx, args[0]); err != nil {
				return err
			}
			return r.Done(map[string]string{"run": args[0], "did": "released"},
				"%s is released; a server resumes it within seconds", args[0])
		},
	)
}
