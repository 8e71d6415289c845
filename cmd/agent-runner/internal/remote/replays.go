package remote

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewReplays returns the "replays" command.
func NewReplays(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "replays",
		Short: "Replay stored runs of an agent with another version or module, on a server",
	}, replaysStart(e), replaysList(e), replaysShow(e), replaysCancel(e), replaysRemove(e))
}

func replaysStart(e *cli.Env) *cobra.Command {
	var q api.StartReplay
	var noWait bool
	cmd := Command(e, &cobra.Command{
		Use:   "start AGENT",
		Short: "Replay the newest finished runs, and show what would differ",
		Long: `Replays runs twice: with their own modules, and with the candidate, which is another
version of the agent or another module. Models and tools give their recorded answers,
and nothing outside is called. Ctrl-C leaves the replay running.`,
		Example: `  agent-runner replays start clerk --version 4
  agent-runner replays start clerk --module redact@2.0 --limit 500`,
	}, func(ctx context.Context, r *Session, args []string) error {
		replay, err := r.StartReplay(ctx, args[0], &q)
		if err != nil {
			return err
		}
		if noWait {
			return r.Done(replay, "started replay %[1]s; show it with: agent-runner replays show %[1]s", replay.ID)
		}
		if replay, err = r.await(ctx, replay); err != nil {
			return err
		}
		return r.showReplay(ctx, replay)
	})
	cmd.Flags().Int64Var(&q.Version, "version", 0, "try version `N` of the agent")
	cmd.Flags().StringVar(&q.Module, "module", "", "try the `MODULE`: a digest, a name or name@version")
	cmd.Flags().
		StringVar(&q.Entry, "entry", "", "the `ENTRY` whose module is replaced (default: the one named like the module)")
	cmd.Flags().Int64Var(&q.Runs.Limit, "limit", 100, "replay at most `N` runs")
	cmd.Flags().Int64Var(&q.Runs.Version, "of-version", 0, "replay only runs of version `N`")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "print the replay's id and exit")
	return cmd
}

// replayPoll is the time between two requests for a replay in progress.
const replayPoll = time.Second

// await waits until a replay has ended.
func (r *Session) await(ctx context.Context, replay *api.Replay) (*api.Replay, error) {
	for replay.Ended.IsZero() {
		select {
		case <-time.After(replayPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("the replay continues; show it with: agent-runner replays show %s", replay.ID)
		}
		var err error
		if replay, err = r.Replay(ctx, replay.ID); err != nil {
			return nil, err
		}
	}
	return replay, nil
}

func replaysList(e *cli.Env) *cobra.Command {
	return listOfAgent(e, "List the replays of an agent, or of all agents", "no replays", &agentList[api.Replay]{
		read:   (*client.Client).Replays,
		header: []string{"REPLAY", "AGENT", "STATUS", "CANDIDATE", "RUNS", "SINCE"},
		row: func(p *api.Replay) []string {
			return []string{p.ID, p.Agent, p.Status, candidateText(&p.Candidate), fmt.Sprintf("%d/%d", p.Done, p.Total),
				cli.Since(p.Created)}
		},
	})
}

func candidateText(c *api.ReplayCandidate) string {
	if c.Version != 0 {
		return fmt.Sprintf("version %d", c.Version)
	}
	return fmt.Sprintf("%s with %s", c.Entry, c.Module)
}

func replaysShow(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "show REPLAY", Short: "Show the progress and the results of a replay"},
		func(ctx context.Context, r *Session, args []string) error {
			replay, err := r.Replay(ctx, args[0])
			if err != nil {
				return err
			}
			return r.showReplay(ctx, replay)
		})
}

// replayResults is a replay with the results of its runs.
type replayResults struct {
	*api.Replay
	Runs []api.ReplayedRun `json:"runs"`
}

// showReplay prints a replay with its results.
func (r *Session) showReplay(ctx context.Context, replay *api.Replay) error {
	list, err := client.Collect(0, func(p client.Page) ([]api.ReplayedRun, string, error) {
		return r.ReplayedRuns(ctx, replay.ID, "", p)
	})
	if err != nil {
		return err
	}
	return r.Print(replayResults{replay, list}, func() string {
		var b strings.Builder
		fmt.Fprintf(
			&b,
			"replay %s of %s with %s: %s, %d of %d runs\n%d same, %d different, %d diverged, %d failed, %d skipped\n",
			replay.ID,
			replay.Agent,
			candidateText(&replay.Candidate),
			replay.Status,
			replay.Done,
			replay.Total,
			replay.Same,
			replay.Different,
			replay.Diverged,
			replay.Failed,
			replay.Skipped,
		)
		for i := range list {
			if list[i].Outcome != "same" {
				replayedText(&b, &list[i])
			}
		}
		return b.String()
	})
}

// replayedText adds the result of a run to b.
func replayedText(b *strings.Builder, run *api.ReplayedRun) {
	fmt.Fprintf(b, "\nrun %s %s%s\n", run.Run, run.Outcome, cli.After(": ", cli.OneLine(run.Reason)))
	for _, c := range run.Changes {
		if c.Before != "" {
			fmt.Fprintf(b, "- %s\n", cli.OneLine(c.Before))
		}
		if c.After != "" {
			fmt.Fprintf(b, "+ %s\n", cli.OneLine(c.After))
		}
	}
	if run.Omitted > 0 {
		fmt.Fprintf(b, "… and %s\n", cli.Count(run.Omitted, "further change"))
	}
	for i := range run.Hooks {
		h := &run.Hooks[i]
		fmt.Fprintf(b, "step %d, %s in %s: %s; %s → %s\n", h.Step, h.Entry, h.Hook,
			cli.Count(h.ChangedTexts, "changed text"), hookText(&h.Before), hookText(&h.After))
	}
	if run.Outcome != "skipped" {
		fmt.Fprintf(b, "faults %d → %d, denials %d → %d, fuel %d → %d\n", run.Before.Faults, run.After.Faults,
			run.Before.Denials, run.After.Denials, run.Before.Fuel, run.After.Fuel)
	}
}

// hookText summarizes the calls of a hook and its decisions.
func hookText(f *api.HookFigures) string {
	text := cli.Count(f.Calls, "call")
	for _, d := range slices.Sorted(maps.Keys(f.Decisions)) {
		text += fmt.Sprintf(", %d %s", f.Decisions[d], d)
	}
	return text + fmt.Sprintf(", %d fuel", f.Fuel)
}

func replaysCancel(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "cancel REPLAY", Short: "Cancel a replay; its results so far remain"},
		func(ctx context.Context, r *Session, args []string) error {
			replay, err := r.CancelReplay(ctx, args[0])
			if err != nil {
				return err
			}
			return r.Done(replay, "replay %s: canceled", replay.ID)
		})
}

func replaysRemove(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "rm REPLAY", Short: "Delete a replay that has ended"},
		func(ctx context.Context, r *Session, args []string) error {
			if err := r.DeleteReplay(ctx, args[0]); err != nil {
				return err
			}
			return r.Done(map[string]string{"replay": args[0], "did": "deleted"}, "deleted replay %s", args[0])
		})
}
