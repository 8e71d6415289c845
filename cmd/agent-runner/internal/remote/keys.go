package remote

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewKeys returns the "keys" command.
func NewKeys(e *cli.Env) *cobra.Command {
	return cli.Group(
		&cobra.Command{Use: "keys", Short: "Create, list and revoke a tenant's keys"},
		keysCreate(e),
		keysList(e),
		keysRotate(e),
		keysRevoke(e),
	)
}

// nameFlag adds the flag --name, which filters a list by name, to a command.
func nameFlag(cmd *cobra.Command, name *string) *cobra.Command {
	cmd.Flags().StringVar(name, "name", "", "list only those whose name contains `TEXT`")
	return cmd
}

// tenantFlag adds the flag --tenant, which the operator uses.
func tenantFlag(cmd *cobra.Command, tenant *string) *cobra.Command {
	cmd.Flags().StringVar(tenant, "tenant", "", "the `TENANT`, if you are the operator (default: your own)")
	return cmd
}

func keysCreate(e *cli.Env) *cobra.Command {
	var tenant, life, role string
	var scopes []string
	cmd := Command(e, &cobra.Command{
		Use:   "create NAME",
		Short: "Create a key",
		Long: `Creates a key and prints it. The server does not store the key itself, so it cannot
be shown again. The key goes to standard output, information about it to standard error.`,
		Example: `  agent-runner keys create ci --scope modules:write --scope agents:write --expires 90d
  agent-runner keys create night-shift --role approver --expires 30d
  agent-runner keys create first --tenant acme > acme.key`,
	}, func(ctx context.Context, r *Session, args []string) error {
		in := &api.CreateKey{Name: args[0], Scopes: scopes, Role: role}
		if life != "" {
			d, err := cli.ParseDays("expires", life)
			if err != nil {
				return err
			}
			in.ExpiresInSeconds = int64(d / time.Second)
		}
		k, err := r.CreateKey(ctx, tenant, in)
		if err != nil {
			return err
		}
		return r.showSecret(k, "key "+k.ID+" of "+tenantName(k.Tenant))
	})
	cmd.Flags().
		StringSliceVar(&scopes, "scope", nil, "allow a `SCOPE` such as runs:write; repeatable (default: all that you may grant)")
	cmd.Flags().
		StringVar(&role, "role", "", "give the scopes of a `ROLE` instead: owner, developer, approver or viewer; admin or support of the operator")
	cmd.Flags().StringVar(&life, "expires", "", "expire after this time, such as 90d or 12h (default: never)")
	return tenantFlag(cmd, &tenant)
}

// showSecret prints a new key to standard output. If the output is text, it also prints a note to
// standard error: the text of what, which describes the key, the key's expiry and its scopes.
func (r *Session) showSecret(k *api.Key, what string) error {
	if r.Output == "json" {
		return cli.PrintJSON(r.Env, k)
	}
	until := ""
	if k.Expires != nil {
		until = ", until " + k.Expires.Format("2006-01-02 15:04:05 MST")
	}
	r.Note(cli.Plain, "%s%s, with scopes %s. It is shown only once; store it safely:",
		what, until, strings.Join(k.Scopes, ", "))
	_, err := fmt.Fprintln(r.Env.Out, cli.Clean(k.Secret))
	return err
}

func keysList(e *cli.Env) *cobra.Command {
	var tenant, name string
	cmd := Command(
		e,
		&cobra.Command{Use: "list", Short: "List keys, without their secret parts"},
		func(ctx context.Context, r *Session, _ []string) error {
			list, err := client.Collect(0, func(p client.Page) ([]*api.Key, string, error) {
				p.Name = name
				return r.Keys(ctx, tenant, p)
			})
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"KEY", "NAME", "STATE", "USED", "SCOPES"}}
				for _, k := range list {
					used := "never"
					if k.Used != nil {
						used = cli.Since(*k.Used)
					}
					rows = append(rows, []string{k.ID, k.Name, keyState(k, time.Now()), used, strings.Join(k.Scopes, " ")})
				}
				return Table("no keys", rows)
			})
		},
	)
	return tenantFlag(nameFlag(cmd, &name), &tenant)
}

func keyState(k *api.Key, now time.Time) string {
	switch {
	case k.Revoked != nil && k.Revoked.After(now):
		return "revoked as of " + k.Revoked.Format("2006-01-02 15:04 MST")
	case k.Revoked != nil:
		return "revoked"
	case k.Expires != nil && k.Expires.Before(now):
		return "expired"
	case k.Expires != nil:
		return "until " + k.Expires.Format("2006-01-02 15:04 MST")
	}
	return "active"
}

func keysRotate(e *cli.Env) *cobra.Command {
	var tenant, grace string
	cmd := Command(e, &cobra.Command{
		Use:   "rotate KEY",
		Short: "Replace a key, named by its id, with a new key of the same scopes",
	}, func(ctx context.Context, r *Session, args []string) error {
		id, err := keyID(args[0])
		if err != nil {
			return err
		}
		var d time.Duration
		if grace != "" {
			if d, err = cli.ParseDays("grace", grace); err != nil {
				return err
			}
		}
		k, err := r.RotateKey(ctx, tenant, id, d)
		if err != nil {
			return err
		}
		return r.showSecret(k, "key "+k.ID+" replaces "+id)
	})
	cmd.Flags().
		StringVar(&grace, "grace", "", "keep the old key valid for this time, such as 1h (default: revoke it immediately)")
	return tenantFlag(cmd, &tenant)
}

func keysRevoke(e *cli.Env) *cobra.Command {
	var tenant string
	cmd := Command(
		e,
		&cobra.Command{Use: "revoke KEY", Short: "Revoke a key, named by its id"},
		func(ctx context.Context, r *Session, args []string) error {
			id, err := keyID(args[0])
			if err != nil {
				return err
			}
			if err := r.RevokeKey(ctx, tenant, id); err != nil {
				return err
			}
			return r.Done(map[string]string{"key": id, "did": "revoked"}, "key %s is revoked", id)
		},
	)
	return tenantFlag(cmd, &tenant)
}

var (
	keyIDs    = regexp.MustCompile(`^[a-z2-7]{10}$`)
	wholeKeys = regexp.MustCompile(`^ar_([a-z2-7]{10})_[a-z2-7]+$`)
)

// keyID returns the id of a key given by its id or in full.
func keyID(text string) (string, error) {
	if part := wholeKeys.FindStringSubmatch(text); part != nil {
		return part[1], nil
	}
	if !keyIDs.MatchString(text) {
		return "", cli.Usagef("%q is not a key id; list them with: agent-runner keys list", cli.Short(text, 20))
	}
	return text, nil
}
