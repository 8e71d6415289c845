// Package run implements the "run" and "runs" commands, which run agents and manage stored runs.
package run

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/store"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module"
)

// A runCommand holds the flags and the state of agent-runner run.
type runCommand struct {
	env *cli.Env

	modules                            hosting.ModuleFlags
	mcp, tools                         []string
	file, model, provider, baseURL     string
	replay, record                     string
	root, instruction, messages        string
	resume, pausedAt, storeAt          string
	otherModules                       bool
	answers                            []string
	output, cacheDir, faultDir         string
	maxSteps, repeat                   int
	timeout                            time.Duration
	noStream, noTools, verbose, chosen bool // chosen: --cache-dir is set
	originals                          bool // --keep-originals

	screen *cli.Screen
	store  store.Store    // nil without --store
	loader *module.Loader // set by withAgent
}

// NewRun returns the "run" command.
func NewRun(e *cli.Env) *cobra.Command {
	c := &runCommand{env: e}
	cmd := &cobra.Command{
		Use:   "run [flags] [PROMPT | -]",
		Short: "Run an agent",
		Long: `Runs an agent on a prompt. If the prompt is -, it is read from standard input.

The answer goes to standard output, everything else to standard error. With -o json,
standard output has one event per line; the last one is run_finished.

The API key comes from $` + agentfile.EnvAPIKey + `, another endpoint from $` + agentfile.EnvBaseURL + `; with
--provider messages from $` + agentfile.EnvAnthropicAPIKey + ` and $` + agentfile.EnvAnthropicBaseURL + `. Without a model, the offline model echo answers: it calls the tools that the prompt names, each with
the JSON object after its name as arguments, and repeats other prompts. With
$` + hosting.EnvOTLP + `, OpenTelemetry spans of the run are sent to that address.

Exit codes: 0 answered, 1 the run failed, 2 wrong usage or a bad file,
3 stopped by a module, 4 waiting for an answer, 130 canceled with Ctrl-C.

If a run needs an answer, it asks on the terminal. Without a terminal, it is saved to a
file; resume it with --resume and the same modules, model and tools. Resuming does not
change the file, so resuming twice repeats the calls.

With --store, the run and its modules are stored as it proceeds. Resume it after a
pause, a crash or a restart with: agent-runner runs resume RUN`,
		Example: `  agent-runner run 'Use calculator {"expression": "6*7"}'
  agent-runner run -m redact.wasm -m policy.wasm --module-config policy='{"deny": ["read_file"]}' "Hello"
  agent-runner run -f agent.yaml --record conversation.json -o json - < prompt.txt
  agent-runner run -f agent.yaml --resume run_7.json --answer int_3=approve
  agent-runner run -f agent.yaml --store runs.db "Book the flight"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("want one prompt, got %d arguments: put the prompt in quotes", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.chosen = cmd.Flags().Changed("cache-dir")
			if err := c.check(cmd); err != nil {
				return err
			}
			c.screen = cli.NewScreen(e)
			ctx, stop := cli.Interruptible(cmd.Context(), func() {
				c.screen.Note(cli.Amber, "agent-runner: canceling; press Ctrl-C again to exit immediately")
			})
			defer stop()
			return c.run(ctx, args)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	c.modules.Add(cmd, e, "after those of -f")
	f.StringVarP(&c.file, "file", "f", "", "read the agent from an agent.yaml; flags override it")
	f.StringVar(&c.model, "model", "", "the model's `NAME`; "+agentfile.Echo+" is the offline model")
	f.StringVar(&c.provider, "provider", "", "the `API` of the endpoint: openai (default), responses or messages")
	f.StringVar(&c.baseURL, "base-url", "", "the `URL` of an endpoint")
	f.StringVar(&c.replay, "replay", "", "answer from the recording in `FILE` instead of a model")
	f.StringVar(&c.record, "record", "", "record the conversation with the model in `FILE`")
	f.StringArrayVar(&c.mcp, "mcp", nil, "add the tools of an MCP server: a `COMMAND`, or an HTTP URL")
	f.StringVar(&c.root, "root", "", "let the file tools read files in `DIR`")
	f.StringArrayVar(&c.tools, "tool", nil, "enable the built-in tool `NAME`; repeatable (default: all usable ones)")
	f.BoolVar(&c.noTools, "no-tools", false, "disable the built-in tools")
	f.StringVar(&c.instruction, "instruction", "", "the system instruction, as `TEXT`")
	f.IntVar(&c.maxSteps, "max-steps", 0, "maximum number of model calls (default 20)")
	f.DurationVar(&c.timeout, "timeout", 0, "time limit of the run, such as 30s")
	f.BoolVar(&c.noStream, "no-stream", false, "do not stream the model's answers")
	f.StringVar(&c.messages, "messages", "", "read earlier messages of the conversation from `FILE`, as JSON")
	f.StringVar(&c.resume, "resume", "", "resume the paused run in `FILE`")
	f.BoolVar(&c.otherModules, "changed-modules", false, "with --resume: allow other modules than the run paused with")
	f.StringArrayVar(&c.answers, "answer", nil,
		"answer an interrupt: `ID=ANSWER`, where ANSWER is approve, deny, or JSON; repeatable")
	f.StringVar(&c.pausedAt, "paused", "",
		"save the run to `FILE` if it pauses (default: RUN.json, or the file of --resume)")
	f.StringVar(&c.storeAt, "store", "", "store runs in `STORE`: "+hosting.StoreHelp+" (default: $"+hosting.EnvStore+")")
	originalsFlag(f, &c.originals)
	f.IntVar(&c.repeat, "repeat", 1, "run `N` times, sequentially")
	f.StringVarP(&c.output, "output", "o", "text", "`text` or json")
	f.BoolVar(&c.verbose, "verbose", false, "show more detail")
	f.StringVar(&c.faultDir, "fault-dir", "", "write fault bundles to `DIR`, for agent-runner module replay")
	f.StringVar(
		&c.cacheDir,
		"cache-dir",
		"",
		"cache compiled modules in `DIR`; \"\" disables the cache (default: $"+hosting.EnvCacheDir+", else the user's cache directory)",
	)
	return cmd
}

// check rejects invalid combinations of flags.
func (c *runCommand) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case c.output != "text" && c.output != "json":
		return cli.Usagef("-o is %q; want text or json", c.output)
	case given("max-steps") && c.maxSteps < 1:
		return cli.Usagef("--max-steps is %d; want 1 or more", c.maxSteps)
	case given("timeout") && c.timeout <= 0:
		return cli.Usagef("--timeout is %v; want a positive time, such as 30s", c.timeout)
	case c.repeat < 1:
		return cli.Usagef("--repeat is %d; want 1 or more", c.repeat)
	case c.repeat > 1 && c.record != "":
		return cli.Usagef("--record records one conversation; remove --repeat")
	case given("resume") && (c.resume == "" || c.messages != "" || c.repeat > 1):
		return cli.Usagef("--resume needs a file, and excludes --messages and --repeat")
	case given("store") && c.storeAt == "":
		return cli.Usagef("--store is empty; want %s", hosting.StoreHelp)
	case given("store") && (given("resume") || given("paused")):
		return cli.Usagef("--store excludes --resume and --paused; resume stored runs with: agent-runner runs resume RUN")
	case c.otherModules && c.resume == "":
		return cli.Usagef("--changed-modules needs --resume")
	case len(c.answers) > 0 && c.resume == "":
		return cli.Usagef("--answer needs --resume")
	case c.noTools && len(c.tools) > 0:
		return cli.Usagef("--no-tools and --tool are mutually exclusive")
	}
	for _, name := range []string{"file", "model", "provider", "base-url", "replay", "record", "root", "messages"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return cli.Usagef("--%s is empty; set a value, or omit the flag", name)
		}
	}
	return nil
}

// run creates the agent that the flags describe, and runs it on the prompt in args.
func (c *runCommand) run(ctx context.Context, args []string) error {
	file, err := c.agentFile(ctx)
	if err != nil {
		return err
	}
	source, err := c.source(file)
	if err != nil {
		return err
	}
	var messages []abi.Message
	if c.resume == "" {
		messages, err = c.conversation(ctx, args)
	} else if len(args) > 0 {
		err = cli.Usagef("--resume takes no prompt; remove it")
	}
	if err != nil {
		return err
	}
	o := &host.FileOptions{Model: source.model, WrapModel: source.wrap}
	if at := hosting.StorePath(c.env, c.storeAt); at != "" && c.resume == "" {
		if c.store, err = hosting.OpenStore(ctx, c.env, at); err != nil {
			return err
		}
		defer c.store.Close()
		if err := c.useStore(o, file, source); err != nil {
			return err
		}
	}
	return c.withAgent(ctx, file, o, func(a *host.Agent) error {
		if source.note != "" {
			c.screen.Note(cli.Plain, "agent-runner: %s", source.note)
		}
		return c.runs(ctx, a, source, messages)
	})
}

// withAgent creates the agent of a file, calls fn with it, and closes it.
func (c *runCommand) withAgent(
	ctx context.Context,
	file *agentfile.File,
	o *host.FileOptions,
	fn func(*host.Agent) error,
) error {
	h, err := c.host(ctx)
	if err != nil {
		return err
	}
	defer hosting.CloseHost(h)
	c.loader = h.Loader()
	tracer, flush, err := hosting.NewTracer(ctx, c.env)
	if err != nil {
		return err
	}
	defer flush()
	if o.Network, err = c.modules.Network(c.env); err != nil {
		return err
	}
	o.Getenv, o.Logger, o.Tracer = c.env.Getenv, hosting.NewLogger(c.screen, c.verbose), tracer
	a, err := h.NewAgentFromFile(ctx, file, o)
	if err != nil {
		return cli.BeforeRun(ctx, explainConfig(err))
	}
	defer a.Close()
	return fn(a)
}

// explainConfig adds the command that shows a module's configuration schema to the error of a
// module that rejected its configuration. It returns any other error, and a fault, unchanged.
func explainConfig(err error) error {
	var refused *module.ConfigError
	var fault *ending.FaultError
	if !errors.As(err, &refused) || errors.As(err, &fault) {
		return err
	}
	return fmt.Errorf("%w\nTo see its configuration: agent-runner module inspect %s", err, refused.Module)
}

// useStore sets the options that persist the runs of an agent in the store.
func (c *runCommand) useStore(o *host.FileOptions, file *agentfile.File, source *source) error {
	if file.Model.BaseURL == "" && source.model == nil && !file.Model.IsEcho() {
		_, baseURL := file.Model.Provider.Env()
		file.Model.BaseURL = agentfile.URL(c.env.Getenv(baseURL))
	}
	text, err := specOf(file, c.replay)
	if err != nil {
		return err
	}
	o.Journal = hosting.JournalOptions(c.env, c.store, "", text)
	o.Journal.Originals = c.originals
	o.Values, o.ReadModule = c.store, c.storeModule
	return nil
}

// runs runs the agent --repeat times. It returns the error of the first failed run.
func (c *runCommand) runs(ctx context.Context, a *host.Agent, source *source, messages []abi.Message) error {
	var show renderer = &textRenderer{screen: c.screen, verbose: c.verbose}
	if c.output == "json" {
		show = &jsonRenderer{c.env.Out}
	}
	var first error
	for n := range c.repeat {
		if ctx.Err() != nil {
			break
		}
		if c.repeat > 1 && c.output == "text" {
			c.screen.Note(cli.Faint, "run %d of %d", n+1, c.repeat)
		}
		source.rewind()
		if err := c.runOnce(ctx, a, messages, show); err != nil && first == nil {
			first = err
		}
		switch left := source.left(); {
		case left == 0, paused(first):
		case first == nil:
			c.screen.Note(cli.Amber, "agent-runner: the recording has %d more answers that the run did not request", left)
		}
	}
	return first
}

// paused reports whether err means that the run is paused and waits for an answer.
func paused(err error) bool {
	var ended *cli.EndedError
	return errors.As(err, &ended) && ended.Code == cli.ExitPaused
}

// runOnce runs the agent once, through its pauses, and shows its events.
func (c *runCommand) runOnce(ctx context.Context, a *host.Agent, messages []abi.Message, show renderer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := c.begin(ctx, a, messages)
	if err != nil {
		return err
	}
	return withHint(c.follow(ctx, cancel, a, events, show), false)
}

// follow shows a run until it ends, and resumes it after pauses.
func (c *runCommand) follow(
	ctx context.Context,
	cancel func(),
	a *host.Agent,
	events iter.Seq2[abi.Event, error],
	show renderer,
) error {
	for {
		ended, err := c.show(cancel, events, show)
		if err != nil {
			return err
		}
		var waits *agent.PausedError
		if !errors.As(ended, &waits) {
			return exitOf(ended, c.storeAt)
		}
		answers := c.ask(ctx, waits.Interrupts)
		if answers == nil && c.store != nil {
			id := waits.State.ID
			return cli.Ended(
				cli.ExitPaused,
				fmt.Errorf(
					"%w\nThe run is stored; resume it with: agent-runner runs resume %s%s --answer ID=ANSWER, one --answer for each:%s",
					ended,
					id,
					hosting.StoreFlag(c.storeAt),
					waiting(waits.Interrupts),
				),
			)
		}
		if answers == nil {
			path, err := c.save(waits)
			if err != nil {
				return cli.Ended(cli.ExitFailed, err)
			}
			return cli.Ended(
				cli.ExitPaused,
				fmt.Errorf("%w\nThe run is saved in %s; resume it with --resume %s and one --answer for each:%s",
					ended, path, path, waiting(waits.Interrupts)),
			)
		}
		if c.store != nil {
			events, err = a.Continue(ctx, waits.State.ID, answers)
		} else {
			events, err = a.Resume(ctx, waits.State, answers)
		}
		if err != nil {
			return cli.Ended(cli.ExitFailed, err)
		}
	}
}

// show shows events until the run ends or pauses. ended is the run's error; err reports that an
// event could not be shown or the run could not be saved. If the run pauses and no terminal or
// store is available, show saves it before it reports the pause.
func (c *runCommand) show(cancel func(), events iter.Seq2[abi.Event, error], show renderer) (ended, err error) {
	var shown error
	for event, err := range events {
		if err != nil {
			ended = err
		}
		if shown != nil || event.Type == "" {
			continue // output has failed, but the run must still end; or the journal has failed
		}
		var paused *agent.PausedError
		if errors.As(err, &paused) && !c.canAsk() && c.store == nil {
			if event.Resume, err = c.save(paused); err != nil {
				return nil, cli.Ended(cli.ExitFailed, err)
			}
		}
		if shown = show.event(event); shown != nil {
			cancel()
		}
	}
	if shown != nil {
		return nil, cli.Ended(cli.ExitFailed, fmt.Errorf("show the run: %w", shown))
	}
	return ended, nil
}

// exitOf converts the error of a run to an error with an exit code. storeAt is the value of
// --store.
func exitOf(ended error, storeAt string) error {
	var end *host.Error
	var lost *journal.Error
	switch {
	case ended == nil:
		return nil
	case errors.As(ended, &lost) && !errors.Is(ended, journal.ErrFenced) && !errors.Is(ended, journal.ErrExists):
		return cli.Ended(
			cli.ExitFailed,
			fmt.Errorf("%w\nReported events are stored; once the store works again, resume with: agent-runner runs resume %s%s",
				ended, lost.Run, hosting.StoreFlag(storeAt)),
		)
	case errors.As(ended, &end) && end.FinishReason == abi.RunStopped:
		return cli.Ended(cli.ExitStopped, ended)
	case errors.As(ended, &end) && end.FinishReason == abi.RunCanceled:
		return cli.Ended(cli.ExitCanceled, ended)
	}
	return cli.Ended(cli.ExitFailed, ended)
}

// host creates the host with the user's cache and fault directories.
func (c *runCommand) host(ctx context.Context) (*host.Host, error) {
	h, _, err := hosting.NewHost(ctx, c.env, c.chosen,
		host.Options{CacheDir: c.cacheDir, FaultDir: c.faultDir, Logger: hosting.NewLogger(c.screen, c.verbose)})
	return h, err
}
