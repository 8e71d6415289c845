package remote

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewMembers returns the "members" command.
func NewMembers(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "members", Short: "Add, list, change and remove the people of a tenant"},
		membersAdd(e), membersList(e), membersRole(e), membersRemove(e))
}

func membersAdd(e *cli.Env) *cobra.Command {
	var tenant, role, name string
	cmd := Command(e, &cobra.Command{
		Use:   "add PERSON",
		Short: "Add a person, by e-mail address or by the subject of the identity provider",
		Long: `Gives a person a role in a tenant. PERSON is an e-mail address, or a subject, which has no
"@". The person signs in to the console with the server's identity provider.`,
		Example: `  agent-runner members add ann@example.com --role developer
  agent-runner members add ann@example.com --role owner --tenant acme`,
	}, func(ctx context.Context, r *Session, args []string) error {
		in := &api.AddMember{Role: role, Name: name}
		if strings.Contains(args[0], "@") {
			in.Email = args[0]
		} else {
			in.Subject = args[0]
		}
		m, err := r.AddMember(ctx, tenant, in)
		if err != nil {
			return err
		}
		return r.Done(m, "added %s as %s %s of %s", args[0], m.Role, m.ID, tenantName(m.Tenant))
	})
	cmd.Flags().
		StringVar(&role, "role", "viewer", "`ROLE`: owner, developer, approver or viewer; admin or support of operators")
	cmd.Flags().StringVar(&name, "name", "", "a name for people")
	return tenantFlag(cmd, &tenant)
}

func membersList(e *cli.Env) *cobra.Command {
	var tenant string
	cmd := Command(e, &cobra.Command{Use: "list", Short: "List members"},
		func(ctx context.Context, r *Session, _ []string) error {
			list, err := client.Collect(
				0,
				func(p client.Page) ([]*api.Member, string, error) { return r.Members(ctx, tenant, p) },
			)
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"MEMBER", "ROLE", "PERSON", "NAME", "JOINED"}}
				for _, m := range list {
					joined, person := "not yet", m.Email
					if m.Joined != nil {
						joined = cli.Since(*m.Joined)
					}
					if person == "" {
						person = m.Subject
					}
					rows = append(rows, []string{m.ID, m.Role, person, m.Name, joined})
				}
				return Table("no members", rows)
			})
		})
	return tenantFlag(cmd, &tenant)
}

func membersRole(e *cli.Env) *cobra.Command {
	var tenant string
	cmd := Command(e, &cobra.Command{Use: "role MEMBER ROLE", Short: "Change the role of a member, named by its id"},
		func(ctx context.Context, r *Session, args []string) error {
			m, err := r.SetMemberRole(ctx, tenant, args[0], args[1])
			if err != nil {
				return err
			}
			return r.Done(m, "member %s is now %s", m.ID, m.Role)
		})
	return tenantFlag(cmd, &tenant)
}

func membersRemove(e *cli.Env) *cobra.Command {
	var tenant string
	cmd := Command(e, &cobra.Command{Use: "rm MEMBER", Short: "Remove a member, named by its id"},
		func(ctx context.Context, r *Session, args []string) error {
			if err := r.RemoveMember(ctx, tenant, args[0]); err != nil {
				return err
			}
			return r.Done(map[string]string{"member": args[0], "did": "removed"}, "removed member %s", args[0])
		})
	return tenantFlag(cmd, &tenant)
}

// NewGroups returns the "groups" command.
func NewGroups(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "groups", Short: "Give groups of the identity provider roles (operator only)"},
		groupsMap(e), groupsList(e), groupsUnmap(e))
}

func groupsMap(e *cli.Env) *cobra.Command {
	var tenant string
	cmd := Command(e, &cobra.Command{
		Use:   "map GROUP ROLE",
		Short: "Give a group a role in a tenant, or a role of operators",
		Example: `  agent-runner groups map acme-engineers developer --tenant acme
  agent-runner groups map support-team support`,
	}, func(ctx context.Context, r *Session, args []string) error {
		g, err := r.MapGroup(ctx, &api.MapGroup{Group: args[0], Tenant: tenant, Role: args[1]})
		if err != nil {
			return err
		}
		return r.Done(g, "group %s has the role %s of %s", g.Group, g.Role, tenantName(g.Tenant))
	})
	cmd.Flags().StringVar(&tenant, "tenant", "", "the `TENANT` (default: the operator's own, for admin and support)")
	return cmd
}

func groupsList(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "list", Short: "List the roles of groups"},
		func(ctx context.Context, r *Session, _ []string) error {
			list, err := client.Collect(0, func(p client.Page) ([]*api.GroupRole, string, error) { return r.Groups(ctx, p) })
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"ID", "GROUP", "ROLE", "TENANT"}}
				for _, g := range list {
					rows = append(rows, []string{g.ID, g.Group, g.Role, tenantName(g.Tenant)})
				}
				return Table("no groups", rows)
			})
		})
}

func groupsUnmap(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "unmap ID", Short: "Remove a role of a group, named by its id"},
		func(ctx context.Context, r *Session, args []string) error {
			if err := r.UnmapGroup(ctx, args[0]); err != nil {
				return err
			}
			return r.Done(map[string]string{"group": args[0], "did": "removed"}, "removed %s", args[0])
		})
}
