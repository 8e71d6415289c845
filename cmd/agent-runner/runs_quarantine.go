package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/host/client"
)

// runsQuarantined lists runs that no server resumes.
func runsQuarantined(e *env) *cobra.Command {
	return remoteCommand(e, &cobra.Command{Use: "quarantined", Short: "List runs that ended the server that ran them: for a server's operator"},
		func(ctx context.Context, r *remote, _ []string) error {
			list, err := client.Collect(0, client.MaxPage, func(p client.Page) ([]client.QuarantinedRun, string, error) { return r.Quarantined(ctx, p) })
			if err != nil {
				return err
			}
			return r.print(list, func() string {
				rows := [][]string{{"RUN", "TENANT", "SINCE", "NODE", "HELD", "OF", "REASON"}}
				for _, q := range list {
					rows = append(rows, []string{q.Run, q.Tenant, since(q.Created), q.Node, size(q.HeldBytes), size(q.ShareBytes), q.Reason})
				}
				return table("no run is quarantined", rows)
			})
		})
}

// runsRelease lets a quarantined run be resumed.
func runsRelease(e *env) *cobra.Command {
	return remoteCommand(e, &cobra.Command{Use: "release RUN", Short: "Let a quarantined run be resumed: for a server's operator"},
		func(ctx context.Context, r *remote, args []string) error {
			if err := r.ReleaseRun(ctx, args[0]); err != nil {
				return err
			}
			return r.done(map[string]string{"run": args[0], "did": "released"}, "%s is released; a server resumes it within seconds", args[0])
		})
}
