package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewTenants returns the "tenants" command.
func NewTenants(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "tenants", Short: "Create, list, change and delete tenants (operator only)"},
		tenantsCreate(e), tenantsList(e), tenantsShow(e), tenantsUpdate(e), tenantsRemove(e))
}

// tenantFlags holds the flags with a tenant's settings.
type tenantFlags struct {
	name                          string
	quota                         []string
	grants, models, params, hosts []string
	upstreams                     []string
	maxSteps                      int
}

func (t *tenantFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.name, "name", "", "display name")
	quotas, _ := quotaFields(&api.TenantQuota{})
	f.StringArrayVar(&t.quota, "quota", nil,
		"set a quota: `NAME=NUMBER`, 0 for its default; one of "+strings.Join(quotas, ", "))
	f.StringArrayVar(&t.grants, "allow-grant", nil,
		"allow agents to give modules this `GRANT`, such as tool:*; repeatable (default: read:*)")
	f.StringArrayVar(
		&t.models,
		"allow-model",
		nil,
		"allow this `MODEL`, also with the operator's credentials; repeatable (default: any, with the tenant's own credentials)",
	)
	f.StringArrayVar(
		&t.params,
		"allow-param",
		nil,
		"allow this additional model `PARAMETER`, such as service_tier; repeatable (default: none if models are allowed by name)",
	)
	f.StringArrayVar(&t.hosts, "allow-host", nil,
		"allow modules and MCP servers to reach this `HOST`, such as *.example.com; repeatable (default: none)")
	f.StringArrayVar(
		&t.upstreams,
		"allow-upstream",
		nil,
		"allow routes to send requests to this `HOST`, such as api.openai.com; repeatable (default: any with a public address)",
	)
	f.IntVar(&t.maxSteps, "max-steps", 0, "maximum number of steps per run")
}

// quotaFields returns the name of each quota, as in JSON, and its field of q.
func quotaFields(q *api.TenantQuota) (names []string, fields map[string]*int64) {
	fields = map[string]*int64{}
	v := reflect.ValueOf(q).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		fields[name] = v.Field(i).Addr().Interface().(*int64)
	}
	return names, fields
}

// limits applies the --quota flags to q.
func (t *tenantFlags) limits(q *api.TenantQuota) error {
	names, field := quotaFields(q)
	for _, text := range t.quota {
		name, value, _ := strings.Cut(text, "=")
		to, ok := field[name]
		if !ok {
			return cli.Usagef("--quota is %q; want NAME=NUMBER, with one of %s", text, strings.Join(names, ", "))
		}
		var n int64
		if err := json.Unmarshal([]byte(value), &n); err != nil || n < 0 {
			return cli.Usagef("--quota is %q; want a whole number of at least 0", text)
		}
		*to = n
	}
	return nil
}

// policy applies the policy flags to p, and reports whether one was set.
func (t *tenantFlags) policy(cmd *cobra.Command, p *api.Policy) bool {
	given := cmd.Flags().Changed
	some := false
	for flag, set := range map[string]func(){
		"allow-grant": func() { p.Grants = present(t.grants) }, "allow-model": func() { p.Models = present(t.models) },
		"allow-param": func() { p.Params = present(t.params) }, "allow-upstream": func() { p.Upstreams = present(t.upstreams) },
		"allow-host": func() { p.Hosts = present(t.hosts) }, "max-steps": func() { p.MaxSteps = t.maxSteps },
	} {
		if given(flag) {
			set()
			some = true
		}
	}
	return some
}

// present returns the non-empty values of a flag, so that a flag whose only value is "" sets an empty
// list.
func present(list []string) (out []string) {
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

func tenantsCreate(e *cli.Env) *cobra.Command {
	t := &tenantFlags{}
	var self *cobra.Command
	cmd := Command(e, &cobra.Command{
		Use:   "create TENANT",
		Short: "Create a tenant",
		Example: `  agent-runner tenants create acme --quota concurrent_runs=5 --quota runs_per_day=1000
  agent-runner keys create first --tenant acme`,
	}, func(ctx context.Context, r *Session, args []string) error {
		in := &api.CreateTenant{ID: args[0], Name: t.name, Quota: &api.TenantQuota{}, Policy: &api.Policy{}}
		if err := t.limits(in.Quota); err != nil {
			return err
		}
		t.policy(self, in.Policy)
		made, err := r.CreateTenant(ctx, in)
		if err != nil {
			return err
		}
		return r.Done(made, "created tenant %[1]s; create a key for it with: agent-runner keys create NAME --tenant %[1]s",
			made.ID)
	})
	self = cmd
	t.add(cmd)
	return cmd
}

func tenantsList(e *cli.Env) *cobra.Command {
	var name string
	cmd := Command(
		e,
		&cobra.Command{Use: "list", Short: "List tenants"},
		func(ctx context.Context, r *Session, _ []string) error {
			list, err := client.Collect(0, func(p client.Page) ([]*api.Tenant, string, error) {
				p.Name = name
				return r.Tenants(ctx, p)
			})
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"TENANT", "NAME", "QUOTA", "SINCE"}}
				for _, t := range list {
					rows = append(rows, []string{t.ID, t.Name, strings.Join(quotaText(&t.Quota), " "), cli.Since(t.Created)})
				}
				return Table("no tenants on "+r.Server(), rows)
			})
		},
	)
	return nameFlag(cmd, &name)
}

// quotaText lists the quotas that are set, as name=value.
func quotaText(q *api.TenantQuota) (out []string) {
	names, fields := quotaFields(q)
	for _, name := range names {
		if v := *fields[name]; v > 0 {
			out = append(out, fmt.Sprintf("%s=%d", name, v))
		}
	}
	return out
}

func tenantText(t *api.Tenant) string {
	var b strings.Builder
	row := func(name, text string) { fmt.Fprintf(&b, "%-8s %s\n", name, cli.OneLine(text)) }
	list := func(l []string, none string) string {
		if len(l) == 0 {
			return none
		}
		return strings.Join(l, ", ")
	}
	row("tenant", t.ID)
	row("name", t.Name)
	row("since", t.Created.Format("2006-01-02 15:04:05 MST"))
	row("quota", list(quotaText(&t.Quota), "the defaults"))
	row("grants", list(t.Policy.Grants, "read:*"))
	row("models", list(t.Policy.Models, "any, with its own credentials"))
	if len(t.Policy.Params) > 0 {
		row("params", list(t.Policy.Params, ""))
	}
	row("hosts", list(t.Policy.Hosts, "none"))
	if len(t.Policy.Upstreams) > 0 {
		row("upstreams", list(t.Policy.Upstreams, ""))
	}
	if t.Policy.MaxSteps > 0 {
		row("steps", fmt.Sprintf("at most %d per run", t.Policy.MaxSteps))
	}
	return b.String()
}

func tenantsShow(e *cli.Env) *cobra.Command {
	return Command(
		e,
		&cobra.Command{Use: "show TENANT", Short: "Show a tenant"},
		func(ctx context.Context, r *Session, args []string) error {
			t, err := r.Tenant(ctx, args[0])
			if err != nil {
				return err
			}
			return r.Print(t, func() string { return tenantText(t) })
		},
	)
}

func tenantsUpdate(e *cli.Env) *cobra.Command {
	t := &tenantFlags{}
	var self *cobra.Command
	cmd := Command(e, &cobra.Command{
		Use:   "update TENANT",
		Short: "Change a tenant",
		Long: `Changes a tenant. Without a flag, a setting is unchanged. The values of an --allow-…
flag replace the whole list; "" clears it.`,
		Example: `  agent-runner tenants update acme --quota runs_per_day=0 --allow-host api.example.com`,
	}, func(ctx context.Context, r *Session, args []string) error {
		now, err := r.Tenant(ctx, args[0])
		if err != nil {
			return err
		}
		if err := t.limits(&now.Quota); err != nil {
			return err
		}
		u := &api.TenantUpdate{}
		if len(t.quota) > 0 {
			u.Quota = &now.Quota
		}
		if t.policy(self, &now.Policy) {
			u.Policy = &now.Policy
		}
		if t.name != "" {
			u.Name = &t.name
		}
		if u.Name == nil && u.Quota == nil && u.Policy == nil {
			return cli.Usagef("no changes given; see %s --help", self.CommandPath())
		}
		changed, err := r.UpdateTenant(ctx, args[0], u)
		if err != nil {
			return err
		}
		return r.Print(changed, func() string { return tenantText(changed) })
	})
	self = cmd
	t.add(cmd)
	return cmd
}

func tenantsRemove(e *cli.Env) *cobra.Command {
	var sure bool
	cmd := Command(e, &cobra.Command{Use: "rm TENANT", Short: "Delete a tenant and all its data"},
		func(ctx context.Context, r *Session, args []string) error {
			if !sure {
				return cli.Usagef("this permanently deletes the keys, modules, agents, secrets and runs of %s; confirm with --yes",
					args[0])
			}
			if err := r.DeleteTenant(ctx, args[0]); err != nil {
				return err
			}
			return r.Done(map[string]string{"tenant": args[0], "did": "deleted"}, "deleted tenant %s", args[0])
		})
	cmd.Flags().BoolVar(&sure, "yes", false, "confirm the deletion")
	return cmd
}
