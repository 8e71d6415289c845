package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/remote"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
)

// isRemote reports whether the command uses a server instead of a store.
func (c *runsCommand) isRemote() (bool, error) {
	switch {
	case c.server != "" && c.storeAt != "":
		return false, cli.Usagef("--server and --store are mutually exclusive")
	case c.server != "":
		return true, nil
	case c.storeAt != "":
		return false, nil
	case c.env.Getenv(remote.EnvServer) != "":
		return true, nil
	case c.env.Getenv(hosting.EnvStore) != "":
		return false, nil
	}
	l, err := remote.ReadLogins(c.env)
	return err == nil && l.Current != "", err
}

// atServer connects to the server and calls run with id. It explains the error of run to the user.
func (c *runsCommand) atServer(ctx context.Context, id string, run func(ctx context.Context, id string) error) error {
	c.remote = &remote.Session{Env: c.env, Address: c.server, Output: c.output}
	var err error
	if c.remote.Client, err = remote.Connect(c.env, c.server); err != nil {
		return err
	}
	return remote.Explain(ctx, c.env, c.remote.Server(), run(ctx, id))
}

// listAtServer prints at most limit runs that f selects, or all of them if limit is 0.
func (c *runsCommand) listAtServer(ctx context.Context, f client.RunFilter, limit int) error {
	runs, err := client.Collect(limit, func(p client.Page) ([]*api.Run, string, error) { return c.remote.Runs(ctx, f, p) })
	if err != nil {
		return err
	}
	return c.remote.Print(runs, func() string {
		infos := make([]journal.RunInfo, len(runs))
		for i, r := range runs {
			infos[i] = *runInfo(r)
		}
		return listText(infos, time.Now())
	})
}

// runInfo converts a run of a server for the code that shows runs of a store. It sets a lease of
// an hour, so that the run does not count as interrupted: the server tracks which process runs
// it.
func runInfo(r *api.Run) *journal.RunInfo {
	i := &journal.RunInfo{
		ID:           r.ID,
		Agent:        r.Agent,
		Title:        r.Title,
		Created:      r.Created,
		Updated:      r.Updated,
		LastSeq:      r.LastEvent,
		LeaseExpires: time.Now().Add(time.Hour),
	}
	i.JournalBytes = r.JournalBytes
	i.Status, i.FinishReason, i.Step, i.Fuel = journal.Status(r.Status), r.FinishReason, r.Step, r.Fuel
	i.Usage = abi.Usage{
		PromptTokens:     r.Usage.PromptTokens,
		CompletionTokens: r.Usage.CompletionTokens,
		TotalTokens:      r.Usage.TotalTokens,
	}
	i.Pending = pendingOf(r)
	for _, m := range r.Modules {
		i.Modules = append(i.Modules,
			journal.Pin{Entry: m.Entry, Ring: "tenant", Digest: strings.TrimPrefix(m.Digest, "sha256:")})
	}
	return i
}

// pendingOf returns the pending interrupts of a run.
func pendingOf(r *api.Run) (out []abi.Pending) {
	for _, p := range r.Interrupts {
		pending := abi.Pending{
			ID:      p.ID,
			Agent:   p.Agent,
			Entry:   p.Entry,
			Hook:    abi.Hook(p.Hook),
			Reason:  p.Reason,
			Payload: p.Payload,
		}
		if p.Call != nil {
			pending.Call = &abi.Call{ID: p.Call.ID, Name: p.Call.Name, Arguments: p.Call.Arguments}
		}
		out = append(out, pending)
	}
	return out
}

// readAtServer reads a run with its history and events from a server.
func (c *runsCommand) readAtServer(ctx context.Context, id string) (*exported, error) {
	run, err := c.remote.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	h, err := c.remote.RunHistory(ctx, id)
	if err != nil {
		return nil, err
	}
	x := &exported{Run: runInfo(run), History: &runlog.History{}}
	for _, part := range []struct {
		from []byte
		to   any
	}{{h.Input, &x.History.Input}, {h.Phases, &x.History.Phases}, {h.Answered, &x.History.Answered}} {
		if _, err := abijson.Decode(part.from, part.to); err != nil {
			return nil, fmt.Errorf("read the history of run %s (the server may have another version): %w", id, err)
		}
	}
	for after, more := int64(0), true; more; {
		var events []abi.Event
		if events, more, err = c.remote.Events(ctx, id, after); err != nil {
			return nil, err
		}
		if more = more && len(events) > 0; more {
			after = events[len(events)-1].Seq
		}
		x.Events = append(x.Events, events...)
	}
	return x, nil
}

func (c *runsCommand) tailAtServer(ctx context.Context, r *runCommand, id string, after int64, follow bool) error {
	show := c.renderer(r)
	if follow {
		f := &following{remote: c.remote, run: r, show: show, detach: true}
		last, err := f.until(ctx, id, after)
		if err == nil && last.Type == abi.EventRunPaused {
			cli.NewScreen(c.env).Note(cli.Amber, "%s", f.resumeWith(id, &last))
		}
		return err
	}
	for more := true; more; {
		events, some, err := c.remote.Events(ctx, id, after)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := show.event(e); err != nil {
				return cli.Ended(cli.ExitFailed, err)
			}
			after = e.Seq
		}
		more = some && len(events) > 0
	}
	return nil
}

func (c *runsCommand) resumeAtServer(ctx context.Context, r *runCommand, id string) error {
	r.env, r.screen, r.output = c.env, cli.NewScreen(c.env), c.output
	answers, err := r.given()
	if err != nil {
		return err
	}
	run, err := c.remote.Run(ctx, id)
	if err != nil {
		return err
	}
	pending := pendingOf(run)
	switch {
	case run.Status == string(journal.StatusFinished):
		return cli.Usagef("run %s: %w: %s", id, journal.ErrFinished, run.FinishReason)
	case len(pending) == 0:
		return cli.Usagef("run %s is not waiting for answers; follow it with: agent-runner runs tail -f %s", id, id)
	case len(answers) == 0:
		if answers = r.ask(ctx, pending); answers == nil {
			return cli.Usagef("run %s waits for answers: give each one with --answer ID=ANSWER%s", id, waiting(pending))
		}
	}
	if _, err := c.remote.StartRun(ctx, &api.StartRun{Run: id, Answers: answers}, ""); err != nil {
		return err
	}
	f := &following{remote: c.remote, run: r, show: c.renderer(r)}
	return f.follow(ctx, id, run.LastEvent)
}

func (c *runsCommand) cancelAtServer(ctx context.Context, id string) error {
	run, err := c.remote.CancelRun(ctx, id)
	var p *api.Problem
	switch {
	case errors.As(err, &p) && p.Code() == api.CodeConflict:
		return cli.Usagef("%w", err)
	case err != nil:
		return err
	case run.Status == string(journal.StatusFinished):
		return c.print(did{Run: id, Did: "ended"}, "run %s has ended", id)
	}
	return c.print(did{Run: id, Did: "asked"}, "run %s is being canceled", id)
}
