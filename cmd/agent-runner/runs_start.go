package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/client"
)

// maxPrompt is the length of the longest prompt, in bytes.
const maxPrompt = 4 << 20

func runsStart(e *env) *cobra.Command {
	var version int64
	var detach, noFollow, verbose bool
	cmd := remoteCommand(e, &cobra.Command{
		Use:   "start AGENT PROMPT",
		Short: "Start a run of an agent at a server, and follow it",
		Long: `Starts a run of an agent that the server has, on a prompt, or on what comes from
standard input if it is -, and shows it as agent-runner run does. A connection that
breaks is made again, and nothing is missed.

Ctrl-C cancels the run; with --detach it only leaves it, and the run goes on. A run
that waits for an answer asks on the terminal; where there is none, it goes on with:
agent-runner runs resume RUN --answer ID=ANSWER

Exit codes: those of run.`,
		Example: `  agent-runner runs start support "Where is my order?"
  agent-runner runs start report --no-follow - < notes.txt`,
	}, func(ctx context.Context, r *remote, args []string) error {
		prompt := args[1]
		if prompt == "-" {
			b, err := io.ReadAll(io.LimitReader(e.in, maxPrompt+1))
			if err != nil {
				return usagef("the prompt cannot be read: %w", err)
			}
			prompt = string(b)
		}
		if prompt == "" || len(prompt) > maxPrompt {
			return usagef("the prompt has %d bytes; want 1 to %d", len(prompt), maxPrompt)
		}
		run, err := r.StartRun(ctx, &client.StartRun{Agent: args[0], Version: version, Input: prompt}, "")
		if err != nil {
			return err
		}
		if noFollow {
			return r.done(run, "run %[1]s has begun; follow it with: agent-runner runs tail -f %[1]s", run.ID)
		}
		if r.output == "text" {
			r.note(faint, "run %s", run.ID)
		}
		c := &runCommand{env: e, screen: newScreen(e), output: r.output, verbose: verbose}
		f := &following{remote: r, run: c, show: (&runsCommand{env: e, output: r.output}).renderer(c), detach: detach}
		return f.follow(ctx, run.ID, 0)
	})
	cmd.Flags().Int64Var(&version, "version", 0, "version `N` of the agent; default: the newest")
	cmd.Flags().BoolVar(&detach, "detach", false, "let the run go on at Ctrl-C")
	cmd.Flags().BoolVar(&noFollow, "no-follow", false, "only say which run has begun")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show more of what happens")
	return cmd
}

// A following shows a server's run.
type following struct {
	remote *remote
	run    *runCommand // that asks
	show   renderer
	detach bool // a signal leaves the run, and does not cancel it
}

// follow shows a run to its end, through its pauses.
func (f *following) follow(ctx context.Context, id string, seq int64) error {
	for {
		last, err := f.until(ctx, id, seq)
		switch {
		case err != nil:
			return err
		case last.Type != abi.EventRunPaused:
			return endOf(&last)
		}
		answers := f.run.ask(ctx, last.Interrupts)
		if answers == nil {
			return &endedError{exitPaused, fmt.Errorf("run %[1]s waits for answers; go on with: agent-runner runs resume %[1]s%[2]s --answer ID=ANSWER, one for each:%[3]s",
				id, after(" --server ", f.remote.server), waiting(last.Interrupts))}
		}
		if _, err := f.remote.StartRun(ctx, &client.StartRun{Run: id, Answers: answers}, ""); err != nil {
			return err
		}
		seq = last.Seq
	}
}

// errDetached is why following ends where the run goes on.
var errDetached = errors.New("left")

// until shows a run until it ends or waits, and returns its last event.
func (f *following) until(ctx context.Context, id string, after int64) (last abi.Event, err error) {
	follow, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer leave(nil)
	stop := context.AfterFunc(ctx, func() { f.interrupted(follow, leave, id) })
	defer stop()
	for e, err := range f.remote.Follow(follow, id, after) {
		switch {
		case errors.Is(err, errDetached):
			return last, &endedError{exitCanceled, fmt.Errorf("left; the run goes on: agent-runner runs tail -f --after %d %s", last.Seq, id)}
		case err != nil:
			return last, fmt.Errorf("%w\nrun %[2]s is not lost; see it with: agent-runner runs tail -f --after %[3]d %[2]s", err, id, last.Seq)
		}
		last = e
		if err := f.show.event(e); err != nil {
			return last, &endedError{exitFailed, fmt.Errorf("cannot show the run: %w", err)}
		}
	}
	return last, nil
}

// maxCancel is how long a server may take to hear that a run is to end.
const maxCancel = 10 * time.Second

// interrupted is what a signal does.
func (f *following) interrupted(ctx context.Context, leave context.CancelCauseFunc, id string) {
	if f.detach {
		leave(errDetached)
		return
	}
	if f.run.screen != nil {
		f.run.screen.note(amber, "agent-runner: canceling; once more Ctrl-C ends this command at once")
	}
	ctx, done := context.WithTimeout(ctx, maxCancel)
	defer done()
	if _, err := f.remote.CancelRun(ctx, id); err != nil {
		leave(fmt.Errorf("the run could not be canceled: %w", err))
	}
}

// endOf says with which code a run ended, by its last event.
func endOf(e *abi.Event) error {
	if e.Type != abi.EventRunFinished {
		return nil
	}
	what := e.Reason
	if e.Error != nil {
		what = e.Error.Message
	}
	switch {
	case e.FinishReason == abi.RunStopped:
		return &endedError{exitStopped, fmt.Errorf("stopped by %s%s", e.StoppedBy, after(": ", what))}
	case e.FinishReason == abi.RunCanceled:
		return &endedError{exitCanceled, fmt.Errorf("the run was canceled%s", after(": ", what))}
	case e.Error != nil:
		return &endedError{exitFailed, errors.New(what)}
	}
	return nil
}
