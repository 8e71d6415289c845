package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewUsage returns the "usage" command.
func NewUsage(e *cli.Env) *cobra.Command {
	var tenant, from, to string
	cmd := Command(e, &cobra.Command{
		Use:   "usage",
		Short: "Show a tenant's usage by day, agent and module",
		Long: `Shows a tenant's usage by day, agent and module: runs, tokens, fuel, calls, time and
journal bytes.

A row without a module is the agent itself: its runs and model calls. For a module,
CALLS counts hook calls. TIME has millisecond resolution. JOURNAL is the number of bytes
that runs wrote to the journal: steps and events. With serve --prices, the last column
is the cost of the tokens.`,
		Example: "  agent-runner usage --from 2026-01-01 --to 2026-01-31",
	}, func(ctx context.Context, r *Session, _ []string) error {
		u := &api.Usage{}
		var err error
		if u.Rows, err = client.Collect(0, func(p client.Page) ([]api.UsageRow, string, error) {
			page, err := r.Usage(ctx, tenant, from, to, p)
			if err != nil {
				return nil, "", err
			}
			u.Total, u.Kept, u.Currency = page.Total, page.Kept, page.Currency
			return page.Rows, page.NextCursor, nil
		}); err != nil {
			return err
		}
		return r.Print(u, func() string { return usageText(u) })
	})
	cmd.Flags().StringVar(&from, "from", "", "the first `DAY` (UTC), such as 2026-01-31 (default: today)")
	cmd.Flags().StringVar(&to, "to", "", "the last `DAY` (UTC) (default: today)")
	return tenantFlag(cmd, &tenant)
}

func usageText(u *api.Usage) string {
	rows := [][]string{{"DAY", "AGENT", "MODULE", "RUNS", "TOKENS", "FUEL", "CALLS", "TIME", "JOURNAL"}}
	if u.Currency != "" {
		rows[0] = append(rows[0], u.Currency)
	}
	row := func(day, agent, module string, x api.UsageRow) {
		cells := []string{
			day,
			agent,
			module,
			cli.Thousands(x.Runs),
			cli.Thousands(x.PromptTokens + x.CompletionTokens),
			cli.Thousands(x.Fuel),
			cli.Thousands(x.Calls),
			fmt.Sprint(time.Duration(x.WallMS) * time.Millisecond),
			cli.Thousands(x.JournalBytes),
		}
		if u.Currency != "" {
			cells = append(cells, fmt.Sprintf("%.4f", x.Cost))
		}
		rows = append(rows, cells)
	}
	for _, x := range u.Rows {
		module := "-"
		if x.Module != "" {
			module = "sha256:" + cli.Short(x.Module, 13)
		}
		row(x.Day, x.Agent, module, x)
	}
	if len(u.Rows) > 1 {
		row("total", "", "", u.Total)
	}
	text := Table("no usage", rows)
	if n := u.Kept.JournalBytes; n > 0 {
		text += fmt.Sprintf("\nThe tenant's journals hold %s bytes.\n", cli.Thousands(n))
	}
	return text
}
