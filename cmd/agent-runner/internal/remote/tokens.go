package remote

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewTokens returns the "tokens" command.
func NewTokens(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "tokens", Short: "Create, list and delete short-lived tokens of end users"},
		tokensCreate(e), tokensList(e), tokensDelete(e))
}

func tokensCreate(e *cli.Env) *cobra.Command {
	var life string
	in := &api.CreateToken{}
	cmd := Command(e, &cobra.Command{
		Use:   "create SUBJECT",
		Short: "Create a token for an end user",
		Long: `Creates a token for an end user, and prints it. SUBJECT is your name for the end user. The
token gives access to the agents of --agent and to the runs of the subject, and to nothing else.
The server does not store the token itself. The token goes to standard output, information about
it to standard error. It needs a key: a token ends with the key that created it.`,
		Example: `  agent-runner tokens create user-42 --agent clerk --runs 20 --model-tokens 100000
  agent-runner tokens create user-42 --agent clerk@stable --threads --expires 1h`,
	}, func(ctx context.Context, r *Session, args []string) error {
		in.Subject = args[0]
		if life != "" {
			d, err := cli.ParseDays("expires", life)
			if err != nil {
				return err
			}
			in.ExpiresIn = int64(d / time.Second)
		}
		k, err := r.CreateToken(ctx, in)
		if err != nil {
			return err
		}
		if r.Output == "json" {
			return cli.PrintJSON(r.Env, k)
		}
		r.Note(cli.Plain, "token %s of %s for %s, until %s. It is shown only once:", k.ID, cli.Clean(k.Subject),
			strings.Join(k.Agents, ", "), k.Expires.Format("2006-01-02 15:04:05 MST"))
		_, err = fmt.Fprintln(r.Env.Out, cli.Clean(k.Secret))
		return err
	})
	f := cmd.Flags()
	f.StringSliceVar(&in.Agents, "agent", nil, "allow runs of an `AGENT`: name, name@version or name@alias; repeatable")
	f.StringVar(&in.Thread, "thread", "", "allow only runs of this `THREAD` of the subject")
	f.BoolVar(&in.Threads, "threads", false, "allow to create threads, and to use those of the subject")
	f.BoolVar(&in.Answers, "answers", false, "allow to answer questions of runs")
	f.Int64Var(&in.Quota.Runs, "runs", 0, "allow at most `N` runs (default: the tenant's quotas)")
	f.Int64Var(&in.Quota.Tokens, "model-tokens", 0, "allow at most `N` tokens of models (default: the tenant's quotas)")
	f.Float64Var(&in.Quota.Cost, "cost", 0, "allow at most this `COST` of models, in the server's currency")
	f.StringVar(&life, "expires", "", "expire after this time, at most 24h (default: 15m)")
	_ = cmd.MarkFlagRequired("agent")
	return cmd
}

func tokensList(e *cli.Env) *cobra.Command {
	var subject string
	cmd := Command(e, &cobra.Command{Use: "list", Short: "List tokens, without their secret parts"},
		func(ctx context.Context, r *Session, _ []string) error {
			list, err := client.Collect(
				0,
				func(p client.Page) ([]*api.Token, string, error) { return r.Tokens(ctx, subject, p) },
			)
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
				rows := [][]string{{"TOKEN", "SUBJECT", "AGENTS", "EXPIRES", "RUNS", "MODEL TOKENS"}}
				for _, k := range list {
					rows = append(rows, []string{k.ID, k.Subject, strings.Join(k.Agents, " "),
						k.Expires.Format("2006-01-02 15:04:05 MST"), usedOf(k.Used.Runs, k.Quota.Runs),
						usedOf(k.Used.Tokens, k.Quota.Tokens)})
				}
				return Table("no tokens", rows)
			})
		})
	cmd.Flags().StringVar(&subject, "subject", "", "only tokens of this `SUBJECT`")
	return cmd
}

// usedOf returns a text with the used amount and, unless it is 0, the limit.
func usedOf(used, limit int64) string {
	if limit == 0 {
		return fmt.Sprint(used)
	}
	return fmt.Sprintf("%d of %d", used, limit)
}

func tokensDelete(e *cli.Env) *cobra.Command {
	var subject string
	cmd := Command(e, &cobra.Command{
		Use:   "rm [TOKEN]",
		Short: "Delete a token, named by its id, or all tokens of an end user",
	}, func(ctx context.Context, r *Session, args []string) error {
		if (len(args) == 1) == (subject != "") {
			return cli.Usagef("want the id of a token, or --subject")
		}
		if subject != "" {
			n, err := r.DeleteTokens(ctx, subject)
			if err != nil {
				return err
			}
			return r.Done(api.DeletedTokens{Deleted: n}, "deleted %d tokens of %s", n, cli.Clean(subject))
		}
		if err := r.DeleteToken(ctx, args[0]); err != nil {
			return err
		}
		return r.Done(map[string]string{"token": args[0], "did": "deleted"}, "deleted token %s", args[0])
	})
	cmd.Flags().StringVar(&subject, "subject", "", "delete all tokens of this `SUBJECT`")
	return cmd
}

// NewCORS returns the "cors" command.
func NewCORS(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "cors", Short: "Show and set the origins whose pages may use tokens"},
		corsShow(e), corsSet(e))
}

func corsShow(e *cli.Env) *cobra.Command {
	var tenant string
	cmd := Command(e, &cobra.Command{Use: "show", Short: "Show the allowed origins"},
		func(ctx context.Context, r *Session, _ []string) error {
			c, err := r.CORS(ctx, tenant)
			if err != nil {
				return err
			}
			return r.printCORS(c)
		})
	return tenantFlag(cmd, &tenant)
}

func corsSet(e *cli.Env) *cobra.Command {
	var tenant string
	var none bool
	cmd := Command(e, &cobra.Command{
		Use:   "set [ORIGIN…]",
		Short: "Set the allowed origins, in place of all earlier ones",
		Example: `  agent-runner cors set https://app.example.com 'https://*.preview.example.com'
  agent-runner cors set --none`,
	}, func(ctx context.Context, r *Session, args []string) error {
		if none == (len(args) > 0) {
			return cli.Usagef("want origins, or --none to allow none")
		}
		c, err := r.SetCORS(ctx, tenant, args)
		if err != nil {
			return err
		}
		return r.printCORS(c)
	})
	cmd.Flags().BoolVar(&none, "none", false, "allow no origin")
	return tenantFlag(cmd, &tenant)
}

func (r *Session) printCORS(c *api.CORS) error {
	return r.Print(c, func() string {
		rows := [][]string{{"ORIGIN"}}
		for _, o := range c.Origins {
			rows = append(rows, []string{o})
		}
		return Table("no origins", rows)
	})
}
