package remote

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewAudit returns the "audit" command.
func NewAudit(e *cli.Env) *cobra.Command {
	var tenant, from, to string
	var filter client.AuditFilter
	var export bool
	var limit ListLimit
	cmd := Command(e, &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what: the audit log of a tenant",
		Example: `  agent-runner audit --action key.create
  agent-runner audit --actor user:248289761001 --from 2026-01-01T00:00:00Z
  agent-runner audit --export > audit.jsonl`,
	}, func(ctx context.Context, r *Session, _ []string) error {
		if err := parseTimes(&filter, from, to); err != nil {
			return err
		}
		if export {
			if tenant != "" {
				return cli.Usagef("--export and --tenant are mutually exclusive; --tenant TENANT -o json --all lists all records")
			}
			return r.ExportAudit(ctx, filter, e.Out)
		}
		rows, err := limit.Max()
		if err != nil {
			return err
		}
		list, err := client.Collect(rows, func(p client.Page) ([]api.AuditRecord, string, error) {
			return r.Audit(ctx, tenant, filter, p)
		})
		if err != nil {
			return err
		}
		return r.Print(list, func() string { return auditText(list) })
	})
	f := cmd.Flags()
	f.StringVar(&filter.Actor, "actor", "", "only records of this `ACTOR`, such as key:ID, user:SUBJECT or operator")
	f.StringVar(&filter.Action, "action", "", "only records of this `ACTION`, such as key.create")
	f.StringVar(&filter.Target, "target", "", "only records of this `TARGET`, such as the id of a key")
	f.StringVar(&from, "from", "", "only records from this `TIME` on, such as 2026-01-31T12:00:00Z")
	f.StringVar(&to, "to", "", "only records before this `TIME`")
	f.BoolVar(&export, "export", false, "print all records as lines of JSON")
	limit.Add(cmd, 50)
	return tenantFlag(cmd, &tenant)
}

// parseTimes sets the times of a filter.
func parseTimes(f *client.AuditFilter, from, to string) error {
	for _, flag := range []struct {
		name, text string
		at         *time.Time
	}{{"from", from, &f.From}, {"to", to, &f.To}} {
		if flag.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, flag.text)
		if err != nil {
			return cli.Usagef("--%s is %q; want a time such as 2026-01-31T12:00:00Z", flag.name, flag.text)
		}
		*flag.at = at
	}
	return nil
}

func auditText(list []api.AuditRecord) string {
	rows := [][]string{{"TIME", "ACTOR", "NAME", "ADDRESS", "ACTION", "TARGET", "DETAIL"}}
	for i := range list {
		a := &list[i]
		rows = append(rows, []string{a.Time.Format("2006-01-02 15:04:05 MST"), a.Actor, a.ActorName, a.Address, a.Action,
			cli.Short(shortDigest(a.Target), 40), cli.Short(string(a.Detail), 100)})
	}
	return Table("no records", rows)
}
