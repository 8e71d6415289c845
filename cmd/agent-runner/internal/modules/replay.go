package modules

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/run"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module/replay"
)

// newReplay returns the command that reproduces a fault or a run.
func newReplay(e *cli.Env) *cobra.Command {
	var output, cacheDir string
	run := &run.Replay{Env: e}
	cmd := &cobra.Command{
		Use:   "replay BUNDLE | --run RUN PATH",
		Short: "Reproduce a fault, or a run with another version of a module",
		Long: `Reproduces a fault of a module. It loads the same module with the same configuration,
repeats the earlier calls of the instance, and runs the hook that faulted, with the
recorded inputs, clock, random bytes and host replies.

With --run, it replays a run from the store of a command or of a server, with the module
at PATH instead of the original one, and shows the differences: in events, and in what
the model and the tools were sent. The answers of the model and the tools come from the
store. Nothing is called; durable values are empty, and HTTP requests of modules fail.

Exit codes: 0 the same fault with the same fuel, or the same run; 1 a difference; 2 the
bundle or the run cannot be replayed.`,
		Example: "  agent-runner module replay faults/20260102T150405.000000000Z-policy-gate_tool-1f2e3d4c.fault.zip",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef(
					"want one bundle: agent-runner module replay BUNDLE; or one module: agent-runner module replay --run RUN PATH",
				)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return cli.Usagef("-o is %q; want text or json", output)
			}
			if cmd.Flags().Changed("run") {
				run.Output, run.CacheDir, run.Chosen, run.Path = output, cacheDir, cmd.Flags().Changed("cache-dir"), args[0]
				return run.Do(cmd.Context())
			}
			b, err := replay.Read(args[0])
			if err != nil {
				return err
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {})
			defer stop()
			h, err := moduleHost(ctx, e, cmd, host.Options{CacheDir: cacheDir})
			if err != nil {
				return err
			}
			defer hosting.CloseHost(h)
			r, err := h.Loader().Replay(ctx, b)
			if err != nil {
				return cli.BeforeRun(ctx, err)
			}
			if output == "json" {
				err = cli.PrintJSON(e, struct {
					Module   string         `json:"module"`
					Digest   string         `json:"digest"`
					Entry    string         `json:"entry"`
					Hook     string         `json:"hook"`
					Recorded replay.Fault   `json:"recorded"`
					Fuel     uint64         `json:"recorded_fuel"`
					Replay   *replay.Result `json:"replay"`
				}{b.Module, b.Digest, b.Entry, string(b.Call.Hook), b.Fault, b.Call.Fuel, r})
			} else {
				_, err = fmt.Fprint(e.Out, cli.Clean(replayText(b, r)))
			}
			if err == nil && !r.Same {
				err = cli.Ended(cli.ExitFailed, errors.New("the replay differs from the recording"))
			}
			return err
		},
	}
	moduleFlags(cmd, &output, &cacheDir)
	cmd.Flags().StringVar(&run.Id, "run", "", "replay the run with this `ID`")
	cmd.Flags().
		StringVar(&run.Entry, "entry", "", "with --run: replace the module of the entry `NAME` (default: the file name without extension)")
	cmd.Flags().
		StringVar(&run.StoreAt, "store", "", "with --run: the `STORE` of the run, "+hosting.StoreHelp+" (default: $"+hosting.EnvStore+", else default)")
	return cmd
}

func replayText(b *replay.Bundle, r *replay.Result) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(key, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", key, cli.OneLine(fmt.Sprintf(format, args...)))
	}
	row("module", "%s, sha256:%s", b.Module, b.Digest)
	row("fault", "of %s in %s (%s), %s", b.Entry, b.Call.Hook, b.Fault.Stage, b.Time.Format(time.RFC3339))
	row("cause", "%s", b.Fault.Cause)
	if b.Fault.Limit != "" {
		row("limit", "%s", limitText(b.Fault.Limit, b.Fault.Value))
	}
	row("fuel", "%s", cli.Thousands(int64(b.Call.Fuel)))
	row("earlier", "%s to the same instance", cli.Count(int64(len(b.Earlier)+b.Dropped), "call"))
	for i, frame := range b.Fault.Stack {
		row(map[bool]string{true: "stack"}[i == 0], "%s", frame)
	}
	for i, line := range b.Fault.Stderr {
		row(map[bool]string{true: "stderr"}[i == 0], "%s", line)
	}
	_ = w.Flush()
	if r.Incomplete != "" {
		fmt.Fprintf(&out, "\nThe recording is incomplete: %s.\n", r.Incomplete)
	}
	if r.Same {
		fmt.Fprintf(&out, "\nReproduced: %s, after %s fuel and %s.\n",
			cli.OneLine(r.Cause), cli.Thousands(int64(r.Fuel)), cli.Count(int64(r.Calls), "host call"))
		return out.String()
	}
	fmt.Fprintln(&out, "\nDifferent:")
	for _, d := range r.Differences {
		fmt.Fprintf(&out, "  %s\n", cli.OneLine(d))
	}
	return out.String()
}

// limitText formats an exceeded limit with its name in agent.yaml.
func limitText(name string, value int64) string {
	key := cmp.Or(ending.LimitKey(name), name)
	switch {
	case name == "hook_time":
		return key + " of " + time.Duration(value).String()
	case strings.HasSuffix(name, "_bytes"):
		return key + " of " + cli.Size(value)
	default:
		return key + " of " + cli.Thousands(value)
	}
}
