package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/remote"
)

// maxPrompt is the maximum length of a prompt, in bytes.
const maxPrompt = 4 << 20

func runsStart(e *cli.Env) *cobra.Command {
	var version int64
	var detach, noFollow, verbose bool
	var thread, concurrency string
	cmd := remote.Command(e, &cobra.Command{
		Use:   "start [AGENT] PROMPT",
		Short: "Start a run of an agent on a server, and follow it",
		Long: `Starts a run of a server's agent on a prompt, and shows it as agent-runner run does.
AGENT may also be AGENT@VERSION or AGENT@ALIAS. A name alone means the alias stable, or
the newest version if the agent has no such alias. If
the prompt is -, it is read from standard input. If the connection breaks, the command
reconnects and continues with the next event.

With --thread, the run continues a thread, and AGENT is optional if the thread has one.

Ctrl-C cancels the run; with --detach, the run continues. If the run needs an answer,
the command asks on the terminal. Without a terminal, resume the run with:
agent-runner runs resume RUN --answer ID=ANSWER

Exit codes: those of run.`,
		Example: `  agent-runner runs start support "Where is my order?"
  agent-runner runs start report --no-follow - < notes.txt
  agent-runner runs start --thread thr_abc "And when does it arrive?"`,
	}, func(ctx context.Context, r *remote.Session, args []string) error {
		agent, prompt := "", args[len(args)-1]
		if len(args) == 2 {
			agent = args[0]
		} else if thread == "" {
			return cli.Usagef("want an agent and a prompt, or --thread ID and a prompt")
		}
		if prompt == "-" {
			b, err := io.ReadAll(io.LimitReader(e.In, maxPrompt+1))
			if err != nil {
				return cli.Usagef("read the prompt: %w", err)
			}
			prompt = string(b)
		}
		if prompt == "" || len(prompt) > maxPrompt {
			return cli.Usagef("the prompt has %d bytes; want 1 to %d", len(prompt), maxPrompt)
		}
		run, err := r.StartRun(ctx, &api.StartRun{Agent: agent, Version: version, Input: prompt, Thread: thread,
			Concurrency: concurrency}, "")
		if err != nil {
			return err
		}
		if noFollow {
			return r.Done(run, "started run %[1]s; follow it with: agent-runner runs tail -f %[1]s", run.ID)
		}
		if r.Output == "text" {
			r.Note(cli.Faint, "run %s", run.ID)
		}
		c := &runCommand{env: e, screen: cli.NewScreen(e), output: r.Output, verbose: verbose}
		f := &following{remote: r, run: c, show: (&runsCommand{env: e, output: r.Output}).renderer(c), detach: detach}
		return f.follow(ctx, run.ID, 0)
	})
	cmd.Flags().Int64Var(&version, "version", 0, "version `N` of the agent")
	cmd.Flags().StringVar(&thread, "thread", "", "continue the thread with this `ID`")
	cmd.Flags().StringVar(&concurrency, "concurrency", "",
		"`reject`, queue or cancel while another run of the thread is unfinished (default: the thread's)")
	cmd.Flags().BoolVar(&detach, "detach", false, "leave the run running on Ctrl-C")
	cmd.Flags().BoolVar(&noFollow, "no-follow", false, "print the run's id and exit")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show more detail")
	return cmd
}

// A following shows a run on a server.
type following struct {
	remote *remote.Session
	run    *runCommand // prompts for answers
	show   renderer
	detach bool // a signal leaves the run running instead of canceling it
}

// follow shows a run until it ends, and resumes it after pauses.
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
			return cli.Ended(cli.ExitPaused, errors.New(f.resumeWith(id, &last)))
		}
		if _, err := f.remote.StartRun(ctx, &api.StartRun{Run: id, Answers: answers}, ""); err != nil {
			return err
		}
		seq = last.Seq
	}
}

// resumeWith returns a message for the user of a paused run, with the command that answers its questions.
// last is the run's event run_paused.
func (f *following) resumeWith(id string, last *abi.Event) string {
	return fmt.Sprintf(
		"run %[1]s waits for answers; resume it with: agent-runner runs resume %[1]s%[2]s --answer ID=ANSWER, one --answer for each:%[3]s",
		id,
		cli.After(" --server ", f.remote.Address),
		waiting(last.Interrupts),
	)
}

// errDetached is the cancellation cause when the command leaves a run running.
var errDetached = errors.New("left")

// until shows a run until it ends or pauses, and returns its last event.
func (f *following) until(ctx context.Context, id string, after int64) (last abi.Event, err error) {
	follow, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer leave(nil)
	stop := context.AfterFunc(ctx, func() { f.interrupted(follow, leave, id) })
	defer stop()
	for e, err := range f.remote.Follow(follow, id, after) {
		switch {
		case errors.Is(err, errDetached):
			return last, cli.Ended(cli.ExitCanceled,
				fmt.Errorf("detached; the run continues; follow it with: agent-runner runs tail -f --after %d %s", last.Seq, id))
		case err != nil && ctx.Err() != nil:
			return last, cli.Ended(cli.ExitFailed,
				fmt.Errorf("%w\nrun %[2]s may continue; follow it with: agent-runner runs tail -f --after %[3]d %[2]s",
					err, id, last.Seq))
		case err != nil:
			return last, fmt.Errorf("%w\nrun %[2]s is not lost; follow it with: agent-runner runs tail -f --after %[3]d %[2]s",
				err, id, last.Seq)
		}
		last = e
		if err := f.show.event(e); err != nil {
			return last, cli.Ended(cli.ExitFailed, fmt.Errorf("show the run: %w", err))
		}
	}
	return last, nil
}

// cancelTimeout bounds the request that cancels a run.
const cancelTimeout = 10 * time.Second

// interrupted handles a signal: it cancels the run, or detaches from it.
func (f *following) interrupted(ctx context.Context, leave context.CancelCauseFunc, id string) {
	if f.detach {
		leave(errDetached)
		return
	}
	if f.run.screen != nil {
		f.run.screen.Note(cli.Amber, "agent-runner: canceling; press Ctrl-C again to exit immediately")
	}
	ctx, done := context.WithTimeout(ctx, cancelTimeout)
	defer done()
	if _, err := f.remote.CancelRun(ctx, id); err != nil {
		leave(fmt.Errorf("cancel the run: %w", err))
	}
}

// endOf returns the error, with its exit code, for the last event of a run. It returns nil if the
// run succeeded or paused.
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
		return cli.Ended(cli.ExitStopped, fmt.Errorf("stopped by %s%s", e.StoppedBy, cli.After(": ", what)))
	case e.FinishReason == abi.RunCanceled:
		return cli.Ended(cli.ExitCanceled, fmt.Errorf("the run was canceled%s", cli.After(": ", what)))
	case e.Error != nil:
		return cli.Ended(cli.ExitFailed, errors.New(what))
	}
	return nil
}
