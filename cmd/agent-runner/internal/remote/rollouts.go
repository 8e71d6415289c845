package remote

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewRollouts returns the "rollouts" command.
func NewRollouts(e *cli.Env) *cobra.Command {
	type action func(r *Session, ctx context.Context, id, reason string) (*api.Rollout, error)
	change := func(use, short string, do action) *cobra.Command {
		var reason string
		cmd := Command(e, &cobra.Command{Use: use + " ROLLOUT", Short: short},
			func(ctx context.Context, r *Session, args []string) error {
				x, err := do(r, ctx, args[0], reason)
				if err != nil {
					return err
				}
				return r.Print(x, func() string { return rolloutText(x) })
			})
		cmd.Flags().StringVar(&reason, "reason", "", "the `TEXT` to store with the rollout")
		return cmd
	}
	return cli.Group(&cobra.Command{
		Use:   "rollouts",
		Short: "Roll out versions of agents on a server, and roll them back",
	}, rolloutsStart(e), rolloutsList(e), rolloutsStatus(e),
		change("pause", "Pause the steps; the percentage stays",
			func(r *Session, ctx context.Context, id, why string) (*api.Rollout, error) {
				return r.PauseRollout(ctx, id, why)
			}),
		change("resume", "Resume a paused rollout",
			func(r *Session, ctx context.Context, id, why string) (*api.Rollout, error) {
				return r.ResumeRollout(ctx, id, why)
			}),
		change("promote", "Move the alias to the canary at once",
			func(r *Session, ctx context.Context, id, why string) (*api.Rollout, error) {
				return r.PromoteRollout(ctx, id, why)
			}),
		change("abort", "End a rollout; all runs get the stable version",
			func(r *Session, ctx context.Context, id, why string) (*api.Rollout, error) {
				return r.AbortRollout(ctx, id, why)
			}))
}

func rolloutsStart(e *cli.Env) *cobra.Command {
	var q api.StartRollout
	var steps []string
	cmd := Command(e, &cobra.Command{
		Use:   "start AGENT VERSION",
		Short: "Roll out a version to an alias, step by step",
		Long: `A growing percentage of the runs of the alias get the version. The server compares
both versions, and rolls back if the new one has more faults, denials or errors, takes
longer or costs more. After a last step of 100 percent, the alias moves.`,
		Example: `  agent-runner rollouts start clerk 4
  agent-runner rollouts start clerk 4 --by thread --step 5:30m --step 100:1h`,
	}, func(ctx context.Context, r *Session, args []string) error {
		var err error
		if q.Version, err = strconv.ParseInt(args[1], 10, 64); err != nil || q.Version < 1 {
			return cli.Usagef("the version is %q; want a number, as listed by agent-runner agents list", args[1])
		}
		if q.Steps, err = stepsOf(steps); err != nil {
			return err
		}
		x, err := r.StartRollout(ctx, args[0], &q)
		if err != nil {
			return err
		}
		return r.Print(x, func() string { return rolloutText(x) })
	})
	cmd.Flags().StringVar(&q.Alias, "alias", "", "the `ALIAS` to move (default: stable)")
	cmd.Flags().StringVar(&q.By, "by", "run", "assign each `run` or thread to a version")
	cmd.Flags().
		StringArrayVar(&steps, "step", nil, "a `PERCENT:DURATION`, such as 10:30m; may be repeated (default: 10:10m, 50:10m, 100:10m)")
	cmd.Flags().
		Int64Var(&q.Rollback.MinRuns, "min-runs", 0, "compare, and proceed, with at least `N` runs of a version (default: 20)")
	cmd.Flags().
		StringSliceVar(&q.Rollback.Off, "off", nil, "do not compare `FIGURES`: faults, denials, errors, latency, cost")
	return cmd
}

// stepsOf parses the values of --step.
func stepsOf(texts []string) (steps []api.RolloutStep, err error) {
	for _, text := range texts {
		share, long, _ := strings.Cut(text, ":")
		percent, err := strconv.ParseInt(strings.TrimSuffix(share, "%"), 10, 64)
		d := time.Duration(0)
		if err == nil && long != "" {
			d, err = time.ParseDuration(long)
		}
		if err != nil || d < 0 {
			return nil, cli.Usagef("--step is %q; want PERCENT:DURATION, such as 10:30m", text)
		}
		steps = append(steps, api.RolloutStep{Percent: percent, Seconds: int64(d.Seconds())})
	}
	return steps, nil
}

func rolloutsList(e *cli.Env) *cobra.Command {
	return listOfAgent(e, "List the rollouts of an agent, or the active ones of all agents", "no rollouts",
		&agentList[api.Rollout]{
			read:   (*client.Client).Rollouts,
			header: []string{"ROLLOUT", "AGENT", "ALIAS", "FROM", "TO", "STATUS", "SINCE", "REASON"},
			row: func(x *api.Rollout) []string {
				return []string{x.ID, x.Agent, x.Alias, fmt.Sprint(x.Stable), fmt.Sprint(x.Canary), x.Status, cli.Since(x.Created),
					x.Reason}
			},
		})
}

func rolloutsStatus(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "status ROLLOUT", Short: "Show a rollout and its figures"},
		func(ctx context.Context, r *Session, args []string) error {
			x, err := r.Rollout(ctx, args[0])
			if err != nil {
				return err
			}
			return r.Print(x, func() string { return rolloutText(x) })
		})
}

// rolloutText formats a rollout with its figures.
func rolloutText(x *api.Rollout) string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"rollout %s of %s@%s: version %d → %d, %s, step %d of %d, %d %%%s\n",
		x.ID,
		x.Agent,
		x.Alias,
		x.Stable,
		x.Canary,
		x.Status,
		x.Step,
		len(x.Plan.Steps),
		x.Percent,
		cli.After(": ", cli.OneLine(x.Reason)),
	)
	rows := [][]string{{"", "RUNS", "FAULTS", "DENIALS", "ERRORS", "P95", "TOKENS", "COST"}}
	for _, arm := range []struct {
		name string
		f    *api.ArmFigures
	}{{"stable", &x.Figures.Stable}, {"canary", &x.Figures.Canary}} {
		percent := func(share float64) string { return fmt.Sprintf("%.1f%%", share*100) }
		rows = append(rows, []string{arm.name, fmt.Sprint(arm.f.Runs), percent(arm.f.Faults), percent(arm.f.Denials),
			percent(arm.f.Errors), (time.Duration(arm.f.P95MS) * time.Millisecond).String(), fmt.Sprintf("%.0f", arm.f.Tokens),
			fmt.Sprintf("%.4g", arm.f.Cost)})
	}
	return b.String() + Table("", rows)
}
