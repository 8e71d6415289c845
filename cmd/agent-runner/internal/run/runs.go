package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/remote"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A runsCommand holds the flags and the state of agent-runner runs.
type runsCommand struct {
	env                     *cli.Env
	storeAt, server, output string
	store                   store.Store
	remote                  *remote.Session // set instead of store for a server
}

// NewRuns returns the "runs" command.
func NewRuns(e *cli.Env) *cobra.Command {
	c := &runsCommand{env: e}
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Start runs on a server; list, show, resume and delete stored runs",
		Long: `Lists, shows, resumes and deletes runs on a server or in a store of run --store. The
first of these that is set selects the server or the store:

  --server URL, or --store WHERE
  $` + remote.EnvServer + `
  $` + hosting.EnvStore + `
  the server of the last login (agent-runner login)
  the default store of the user

A store is ` + hosting.StoreHelp + `.`,
	}
	return cli.Group(
		cmd,
		runsStart(e),
		c.list(),
		c.show(),
		c.tail(),
		c.resume(),
		c.cancel(),
		c.export(),
		c.delete(),
		c.prune(),
		runsQuarantined(e),
		runsRelease(e),
	)
}

// command adds the flags and the check of the arguments to a subcommand. The subcommand takes the
// ID of one run if Use contains RUN, else no arguments. It calls run for a store and atServer for
// a server. If atServer is nil, the subcommand works only on a store.
func (c *runsCommand) command(
	cmd *cobra.Command,
	run, atServer func(ctx context.Context, id string) error,
) *cobra.Command {
	one := strings.Contains(cmd.Use, " RUN")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case one && len(args) != 1:
			return cli.Usagef("want one run: %s RUN; list them with: agent-runner runs list", cmd.CommandPath())
		case !one && len(args) > 0:
			return cli.Usagef("%s takes no arguments", cmd.CommandPath())
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.output != "text" && c.output != "json" {
			return cli.Usagef("-o is %q; want text or json", c.output)
		}
		if cmd.Flags().Changed("store") && c.storeAt == "" {
			return cli.Usagef("--store is empty; want %s", hosting.StoreHelp)
		}
		ctx, stop := cli.Interruptible(cmd.Context(), func() {})
		defer stop()
		id := ""
		if one {
			id = args[0]
		}
		remote, err := c.isRemote()
		switch {
		case err != nil:
			return err
		case remote && atServer == nil:
			return cli.Usagef("%s works on a store, not on a server; name the store with --store STORE, or --store default",
				cmd.CommandPath())
		case remote:
			return c.atServer(ctx, id, atServer)
		}
		return c.inStore(ctx, id, run)
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&c.output, "output", "o", "text", "`text` or json")
	cmd.Flags().
		StringVar(&c.server, "server", "", "the `URL` of the server with the runs (default: see agent-runner runs --help)")
	cmd.Flags().StringVar(&c.storeAt, "store", "", "the `STORE` with the runs, instead of a server: "+hosting.StoreHelp)
	return cmd
}

// inStore opens the store, calls run with id, and closes the store. If the run does not exist, the error
// says how to list the runs. If the database fails after it was opened, the exit code of the error is
// ExitFailed; if ctx is done, it is ExitCanceled.
func (c *runsCommand) inStore(ctx context.Context, id string, run func(ctx context.Context, id string) error) error {
	where := cmp.Or(c.storeAt, c.env.Getenv(hosting.EnvStore), hosting.DefaultStore)
	at := hosting.StorePath(c.env, where)
	var err error
	if c.store, err = hosting.OpenExistingStore(ctx, c.env, where); err != nil {
		return err
	}
	defer c.store.Close()
	err = run(ctx, id)
	var ended *cli.EndedError
	var failed *database.Error
	switch {
	case errors.As(err, &ended):
		return err
	case errors.Is(err, journal.ErrNoRun):
		return fmt.Errorf("%w in %s; list them with: agent-runner runs list%s",
			err, hosting.RedactedLocation(at), hosting.StoreFlag(c.storeAt))
	case errors.As(err, &failed):
		return cli.Ended(cli.ExitFailed, err)
	case err != nil && ctx.Err() != nil:
		return cli.Ended(cli.ExitCanceled, errors.New("canceled"))
	}
	return err
}

func (c *runsCommand) list() *cobra.Command {
	var filter runsFilter
	var limit remote.ListLimit
	check := func() (client.RunFilter, int, error) {
		f, err := filter.parse()
		if err != nil {
			return f, 0, err
		}
		rows, err := limit.Max()
		return f, rows, err
	}
	cmd := c.command(
		&cobra.Command{
			Use:   "list",
			Short: "List runs, newest first",
			Example: "  agent-runner runs list --status paused --agent clerk\n" +
				"  agent-runner runs list --metadata customer=acme --faults --created-from 2026-01-31",
		},
		func(ctx context.Context, _ string) error {
			f, rows, err := check()
			if err != nil {
				return err
			}
			runs, err := ListRuns(ctx, c.store, stored(&f), rows)
			if err != nil {
				return err
			}
			if c.output == "json" {
				for i := range runs {
					runs[i].Spec = nil
				}
				return cli.PrintJSON(c.env, runs)
			}
			_, err = fmt.Fprint(c.env.Out, cli.Clean(listText(runs, time.Now())))
			return err
		},
		func(ctx context.Context, _ string) error {
			f, rows, err := check()
			if err != nil {
				return err
			}
			return c.listAtServer(ctx, f, rows)
		},
	)
	filter.add(cmd)
	limit.Add(cmd, 50)
	return cmd
}

// maxPage is the maximum number of runs that ListRuns reads in one query.
const maxPage = 500

// ListRuns reads at most limit runs of a store, or all if limit is 0.
func ListRuns(ctx context.Context, s store.Store, f store.Filter, limit int) ([]journal.RunInfo, error) {
	all := []journal.RunInfo{}
	for {
		f.Limit = maxPage
		if limit > 0 {
			f.Limit = min(f.Limit, limit-len(all))
		}
		runs, next, err := s.Runs(ctx, &f)
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
		if next == nil || limit > 0 && len(all) >= limit {
			return all, nil
		}
		f.After = next
	}
}

func listText(runs []journal.RunInfo, now time.Time) string {
	if len(runs) == 0 {
		return "no runs\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTATUS\tAGENT\tSTEPS\tTOKENS\tBEGAN\tABOUT")
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", r.ID, statusText(&r, now), cli.OneLine(cli.Short(r.Agent, 30)), r.Step,
			r.Usage.TotalTokens, cli.Ago(now.Sub(r.Created)), cli.OneLine(cli.Short(r.Title, 60)))
	}
	_ = w.Flush()
	return out.String()
}

// statusText returns the status of a run, or its finish reason.
func statusText(r *journal.RunInfo, now time.Time) string {
	switch {
	case r.Status == journal.StatusFinished:
		return r.FinishReason
	case r.Status == journal.StatusPaused, len(r.Pending) > 0 && r.LeaseExpires.Before(now):
		return "waiting for an answer"
	case hosting.OwnerGone(r.Owner) || r.LeaseExpires.Before(now):
		return "interrupted"
	default:
		return "running"
	}
}

// withStoredAgent recreates the agent of a stored run, and calls fn with it.
func (c *runsCommand) withStoredAgent(
	ctx context.Context,
	r *runCommand,
	info *journal.RunInfo,
	fn func(*host.Agent) error,
) error {
	file, replay, err := fileOf(info)
	if err != nil {
		return err
	}
	source, err := storedSource(replay)
	if err != nil {
		return err
	}
	r.env, r.store, r.storeAt, r.output, r.screen = c.env, c.store, c.storeAt, c.output, cli.NewScreen(c.env)
	o := &host.FileOptions{
		Model:      source.model,
		Values:     c.store,
		Tenant:     info.Tenant,
		ReadModule: storedModule(c.store, info),
		Journal:    hosting.JournalOptions(c.env, c.store, info.Tenant, info.Spec),
	}
	o.Journal.Originals = r.originals
	return r.withAgent(ctx, file, o, fn)
}

func (c *runsCommand) resume() *cobra.Command {
	r := &runCommand{}
	cmd := c.command(&cobra.Command{
		Use:   "resume RUN",
		Short: "Resume a run that is waiting or was interrupted",
		Long: `Resumes a run that waits for answers, or whose process ended. It uses the modules that
the run started with, and the same model and tools. Completed calls are not repeated. A
tool call that was in progress is repeated only if the tool declares that it is
idempotent; otherwise the model receives a result that says the outcome is unknown.

Exit codes: those of run; 2 also if the run cannot be resumed.`,
		Example: "  agent-runner runs resume run_x7 --answer int_3=approve",
	}, func(ctx context.Context, id string) error {
		info, err := c.store.Run(ctx, id)
		if err != nil {
			return err
		}
		return c.withStoredAgent(ctx, r, info, func(a *host.Agent) error { return c.resumeRun(ctx, r, a, info) })
	}, func(ctx context.Context, id string) error { return c.resumeAtServer(ctx, r, id) })
	cmd.Flags().
		StringArrayVar(&r.answers, "answer", nil, "answer an interrupt: `ID=ANSWER`, where ANSWER is approve, deny, or JSON; repeatable")
	cmd.Flags().BoolVar(&r.verbose, "verbose", false, "show more detail")
	r.modules.AddNetwork(cmd)
	hostFlags(cmd, r)
	return cmd
}

// originalsFlag adds the flag that stores messages and values as they were before modules changed or
// removed them.
func originalsFlag(f *pflag.FlagSet, originals *bool) {
	f.BoolVar(
		originals,
		"keep-originals",
		false,
		"store the input and recorded answers as they came, also where modules changed them",
	)
}

// hostFlags adds the flags of commands that run the modules of a stored run.
func hostFlags(cmd *cobra.Command, r *runCommand) {
	cmd.Flags().StringVar(&r.faultDir, "fault-dir", "", "write fault bundles to `DIR`, for agent-runner module replay")
	cmd.Flags().
		StringVar(&r.cacheDir, "cache-dir", "", "cache compiled modules in `DIR`; \"\" disables the cache (default: $"+hosting.EnvCacheDir+", else the user's cache directory)")
	originalsFlag(cmd.Flags(), &r.originals)
	cmd.PreRun = func(cmd *cobra.Command, _ []string) { r.chosen = cmd.Flags().Changed("cache-dir") }
}

// resumeRun resumes a stored run with the answers of --answer, or else with those that the user gives
// on the terminal, and shows its events.
func (c *runsCommand) resumeRun(ctx context.Context, r *runCommand, a *host.Agent, info *journal.RunInfo) error {
	answers, err := r.given()
	if err != nil {
		return err
	}
	if len(answers) == 0 && len(info.Pending) > 0 {
		if answers = r.ask(ctx, info.Pending); answers == nil {
			return cli.Usagef("run %s waits for answers: give each one with --answer ID=ANSWER%s",
				info.ID, waiting(info.Pending))
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := a.Continue(agent.AnsweredBy(ctx, hosting.Whoami()), info.ID, answers)
	if err != nil {
		return err
	}
	return withHint(r.follow(ctx, cancel, a, events, c.renderer(r)), true)
}

func (c *runsCommand) renderer(r *runCommand) renderer {
	if c.output == "json" {
		return &jsonRenderer{c.env.Out}
	}
	return &textRenderer{screen: r.screen, verbose: r.verbose}
}

func (c *runsCommand) cancel() *cobra.Command {
	r := &runCommand{}
	var force bool
	cmd := c.command(&cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run",
		Long: `Cancels a run. If a process is running it, that process is asked to end it. If the run
is waiting or was interrupted, its modules are notified of the end.`,
	}, func(ctx context.Context, id string) error {
		info, err := c.store.Run(ctx, id)
		switch {
		case err != nil:
			return err
		case info.Status == journal.StatusFinished:
			return fmt.Errorf("run %s: %w: %s", id, journal.ErrFinished, info.FinishReason)
		case force:
			return c.abandon(ctx, info)
		case info.Status == journal.StatusRunning && !hosting.OwnerGone(info.Owner) && info.LeaseExpires.After(time.Now()):
			if err := c.store.Cancel(ctx, id); err != nil {
				return err
			}
			return c.print(did{Run: id, Did: "asked"}, "asked %s to end run %s", info.Owner, id)
		}
		err = c.withStoredAgent(ctx, r, info, func(a *host.Agent) error {
			events, err := a.Cancel(ctx, id)
			if err != nil {
				return err
			}
			for e, err := range events {
				var ended *agent.Error
				canceled := errors.As(err, &ended) && ended.FinishReason == abi.RunCanceled
				if e.Type == "" || err != nil && !canceled {
					return cli.Ended(cli.ExitFailed, err)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%w\nTo cancel it without notifying its modules: agent-runner runs cancel --force %s", err, id)
		}
		return c.print(did{Run: id, Did: "ended"}, "run %s has ended", id)
	}, c.cancelAtServer)
	cmd.Flags().BoolVar(&force, "force", false, "cancel it without notifying its modules")
	hostFlags(cmd, r)
	return cmd
}

// abandon cancels a run in the store without calling its modules.
func (c *runsCommand) abandon(ctx context.Context, info *journal.RunInfo) error {
	if info.Status == journal.StatusRunning && hosting.OwnerGone(info.Owner) {
		if _, err := c.store.Claim(ctx, &journal.Claim{
			Run: info.ID, Epoch: info.Epoch, Owner: hosting.Owner(), LeaseTTL: -time.Second, Steal: true,
		}); err != nil {
			return err
		}
	}
	if err := c.store.Abandon(ctx, info.ID, "canceled by the user"); err != nil {
		return err
	}
	return c.print(did{Run: info.ID, Did: "ended"}, "run %s has ended", info.ID)
}

// did is the JSON output of a command that changes runs.
type did struct {
	Run  string `json:"run,omitempty"`
	Did  string `json:"did"` // "asked" (to end), "ended", "deleted" or "would_delete"
	Runs *int   `json:"runs,omitempty"`
}

// print prints the result of a change: d in JSON, or the formatted message.
func (c *runsCommand) print(d did, format string, args ...any) error {
	if c.output == "json" {
		return cli.PrintJSON(c.env, d)
	}
	_, err := fmt.Fprintln(c.env.Out, cli.Clean(fmt.Sprintf(format, args...)))
	return err
}

func (c *runsCommand) delete() *cobra.Command {
	return c.command(&cobra.Command{Use: "delete RUN", Short: "Delete a run"}, func(ctx context.Context, id string) error {
		if err := c.store.Delete(ctx, id); err != nil {
			return err
		}
		return c.print(did{Run: id, Did: "deleted"}, "deleted run %s", id)
	}, func(ctx context.Context, id string) error {
		if err := c.remote.DeleteRun(ctx, id); err != nil {
			return err
		}
		return c.print(did{Run: id, Did: "deleted"}, "deleted run %s", id)
	})
}

func (c *runsCommand) prune() *cobra.Command {
	var age string
	var o store.PruneOptions
	cmd := c.command(&cobra.Command{
		Use:   "prune",
		Short: "Delete old runs",
		Long: `Deletes runs that have not changed for some time: finished ones, and with --unfinished
also those that are waiting for answers or were interrupted. Active runs are never
deleted. The file of an SQLite database does not shrink: new runs reuse the space.`,
		Example: "  agent-runner runs prune --older-than 30d",
	}, func(ctx context.Context, _ string) error {
		var err error
		if o.OlderThan, err = parseAge(age); err != nil {
			return err
		}
		n, err := c.store.Prune(ctx, o)
		switch {
		case err != nil:
			return err
		case o.DryRun:
			return c.print(did{Did: "would_delete", Runs: &n}, "would delete %s", cli.Count(int64(n), "run"))
		default:
			return c.print(did{Did: "deleted", Runs: &n}, "deleted %s", cli.Count(int64(n), "run"))
		}
	}, nil)
	cmd.Flags().
		StringVar(&age, "older-than", "", "delete runs that have not changed for this `AGE`, such as 30d, 12h or 90m")
	cmd.Flags().
		BoolVar(&o.Unfinished, "unfinished", false, "also delete runs that are waiting for answers or were interrupted")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only print how many")
	return cmd
}

// parseAge reads the age of --older-than.
func parseAge(text string) (time.Duration, error) {
	if text == "" {
		return 0, cli.Usagef("want an age, such as --older-than 30d")
	}
	return cli.ParseDays("older-than", text)
}

// exported holds the stored data of a run, for JSON output and for the commands that show or
// replay the run.
type exported struct {
	Run     *journal.RunInfo `json:"run"`
	History *runlog.History  `json:"history"`
	Events  []abi.Event      `json:"events"`

	log [][]byte // the run's log; nil if the run was read through a server's API
}

func (c *runsCommand) export() *cobra.Command {
	return c.command(&cobra.Command{
		Use:   "export RUN",
		Short: "Write a run with its history and events, as JSON",
	}, func(ctx context.Context, id string) error {
		x, err := c.read(ctx, id)
		if err != nil {
			return err
		}
		return cli.PrintJSON(c.env, x)
	}, func(ctx context.Context, id string) error {
		x, err := c.readAtServer(ctx, id)
		if err != nil {
			return err
		}
		return cli.PrintJSON(c.env, x)
	})
}

// read reads a run with its history and events from the store.
func (c *runsCommand) read(ctx context.Context, id string) (*exported, error) {
	stored, err := c.store.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	x := &exported{Run: &stored.RunInfo, log: stored.Log}
	if x.History, err = runlog.ReadHistory(stored); err != nil {
		return nil, err
	}
	for {
		after := int64(0)
		if n := len(x.Events); n > 0 {
			after = x.Events[n-1].Seq
		}
		events, err := c.store.Events(ctx, id, after, 10_000)
		if err != nil || len(events) == 0 {
			return x, err
		}
		x.Events = append(x.Events, events...)
	}
}

func (c *runsCommand) tail() *cobra.Command {
	var after int64
	var follow, verbose bool
	cmd := c.command(&cobra.Command{
		Use:   "tail RUN",
		Short: "Show the events of a run",
		Long:  "Shows the events of a run. With --follow, it waits for new events until the run ends or pauses.",
	}, func(ctx context.Context, id string) error {
		r := &runCommand{env: c.env, screen: cli.NewScreen(c.env), verbose: verbose}
		show := c.renderer(r)
		for {
			events, err := c.store.Events(ctx, id, after, 1000)
			if err != nil {
				return err
			}
			for _, e := range events {
				if err := show.event(e); err != nil {
					return cli.Ended(cli.ExitFailed, err)
				}
				after = e.Seq
			}
			if len(events) > 0 {
				continue
			}
			info, err := c.store.Run(ctx, id)
			if err != nil || !follow || info.Status != journal.StatusRunning && info.LastSeq <= after {
				return err
			}
			select {
			case <-time.After(tailInterval):
			case <-ctx.Done():
				return cli.Ended(cli.ExitCanceled, errors.New("canceled; the run continues"))
			}
		}
	}, func(ctx context.Context, id string) error {
		return c.tailAtServer(ctx, &runCommand{env: c.env, screen: cli.NewScreen(c.env), verbose: verbose}, id, after, follow)
	})
	cmd.Flags().Int64Var(&after, "after", 0, "show only events after number `N`")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for new events")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show more detail")
	return cmd
}

// tailInterval is the interval between polls of a store for new events.
const tailInterval = 200 * time.Millisecond
