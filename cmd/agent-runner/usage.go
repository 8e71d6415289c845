package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/host/client"
)

func newUsage(e *env) *cobra.Command {
	var tenant, from, to string
	cmd := remoteCommand(e, &cobra.Command{
		Use:   "usage",
		Short: "Show what a tenant used: runs, tokens, fuel, time and journal, by day, agent and module",
		Long: `Shows what a tenant used: runs, tokens, fuel, time and journal, by day, agent and module.

A row without a module is the agent itself: its runs, and the calls of its model. Calls
of a module are those of its hooks. Time is in whole milliseconds.
Journal is the bytes that runs wrote to it: what they did, and their events.`,
		Example: "  agent-runner usage --from 2026-01-01 --to 2026-01-31",
	}, func(ctx context.Context, r *remote, _ []string) error {
		u := &client.Usage{}
		var err error
		if u.Rows, err = client.Collect(0, client.MaxUsagePage, func(p client.Page) ([]client.UsageRow, string, error) {
			page, err := r.Usage(ctx, tenant, from, to, p)
			if err != nil {
				return nil, "", err
			}
			u.Total = page.Total
			return page.Rows, page.Next, nil
		}); err != nil {
			return err
		}
		return r.print(u, func() string { return usageText(u) })
	})
	cmd.Flags().StringVar(&from, "from", "", "the first `DAY` (UTC), such as 2026-01-31; default: today")
	cmd.Flags().StringVar(&to, "to", "", "the last `DAY` (UTC); default: today")
	return tenantFlag(cmd, &tenant)
}

func usageText(u *client.Usage) string {
	rows := [][]string{{"DAY", "AGENT", "MODULE", "RUNS", "TOKENS", "FUEL", "CALLS", "TIME", "JOURNAL"}}
	row := func(day, agent, module string, x client.UsageRow) {
		rows = append(rows, []string{day, agent, module, thousands(x.Runs), thousands(x.PromptTokens + x.CompletionTokens), thousands(x.Fuel), thousands(x.Calls),
			fmt.Sprint(time.Duration(x.WallMS) * time.Millisecond), thousands(x.JournalBytes)})
	}
	for _, x := range u.Rows {
		module := "-"
		if x.Module != "" {
			module = "sha256:" + short(x.Module, 13)
		}
		row(x.Day, x.Agent, module, x)
	}
	if len(u.Rows) > 1 {
		row("total", "", "", u.Total)
	}
	text := table("nothing was used", rows)
	if n := u.Kept.JournalBytes; n > 0 {
		text += fmt.Sprintf("\nThe journals of the tenant's runs keep %s bytes.\n", thousands(n))
	}
	return text
}
