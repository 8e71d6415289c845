package modules

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/bench"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// newBench returns the command that benchmarks a module.
func newBench(e *cli.Env) *cobra.Command {
	var config, messages, output, cacheDir, profileTo string
	var count int
	cmd := &cobra.Command{
		Use:   "bench PATH",
		Short: "Benchmark the hooks of a module",
		Long: `Runs each hook of a module on a conversation as an agent would, with a model and
tools that answer immediately, and prints medians: fuel, which is the same on every
machine; time, including the host's overhead; bytes in and out; host calls; and memory
growth in pages of 64 KiB.

With --profile, it also prints which functions of the module used the fuel, and writes
a pprof profile: view it with go tool pprof -http=: FILE. Profiling distorts the times.`,
		Example: `  agent-runner module bench redact.wasm
  agent-runner module bench summarize.wasm --config '{"keep": 10}' --messages long.json -o json
  agent-runner module bench redact.wasm --profile fuel.pb.gz`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("want one module: agent-runner module bench PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o := &bench.Options{Config: json.RawMessage(config), Runs: count}
			switch {
			case output != "text" && output != "json":
				return cli.Usagef("-o is %q; want text or json", output)
			case count < 1:
				return cli.Usagef("--count is %d; want 1 or more", count)
			}
			if messages != "" {
				var err error
				if o.Messages, err = cli.ReadMessages(messages); err != nil {
					return err
				}
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {})
			defer stop()
			var p *sandbox.Profile
			if profileTo != "" {
				p = &sandbox.Profile{}
			}
			m, closeBoth, err := loadModule(ctx, e, cmd, args[0], host.Options{CacheDir: cacheDir, Profile: p})
			if err != nil {
				return err
			}
			defer closeBoth()
			r := benchResult{Path: m.Name(), Digest: m.Info().Digest, Runs: count}
			if p == nil {
				r.Hooks, err = bench.Run(ctx, m, o)
			} else {
				r.Path = args[0]
				err = r.profile(ctx, m, o, p, profileTo)
			}
			if err != nil {
				return cli.BeforeRun(ctx, err)
			}
			if output == "json" {
				return cli.PrintJSON(e, r)
			}
			_, err = fmt.Fprint(e.Out, cli.Clean(benchText(r.Hooks)+functionsText(r.Functions, count)))
			return err
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "the module's configuration, as `JSON`")
	cmd.Flags().
		StringVar(&messages, "messages", "", "read the conversation from `FILE`, as JSON (default: a conversation of twenty messages)")
	cmd.Flags().
		StringVar(&profileTo, "profile", "", "write a profile of fuel by function to `FILE`, and print the top functions")
	cmd.Flags().IntVar(&count, "count", bench.DefaultRuns, "run the conversation `N` times")
	moduleFlags(cmd, &output, &cacheDir)
	return cmd
}

// A benchResult is the JSON output of the benchmark of a module.
type benchResult struct {
	Path      string        `json:"path"`
	Digest    string        `json:"digest"`
	Runs      int           `json:"runs"`
	Hooks     []bench.Row   `json:"hooks"`
	Functions []functionRow `json:"functions,omitempty"`
}

// profile benchmarks m and writes the profile p to file. It rejects scripts.
func (r *benchResult) profile(
	ctx context.Context,
	m *module.Module,
	o *bench.Options,
	p *sandbox.Profile,
	file string,
) (err error) {
	if module.BundleOf(m) != nil {
		return cli.Usagef("%s is a script: --profile counts WebAssembly functions, so it would show the interpreter's",
			m.Name())
	}
	p.Reset() // discard what loading the module used
	if r.Hooks, err = bench.Run(ctx, m, o); err != nil {
		return err
	}
	samples := p.Samples()
	readable(samples)
	r.Functions = functionRows(samples)
	return writeProfile(file, samples)
}

// benchText formats the measurements as a table.
func benchText(rows []bench.Row) string {
	if len(rows) == 0 {
		return "the module has no hook that runs call\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := 0 // width of the left-aligned names; numbers are right-aligned
	for _, r := range rows {
		width = max(width, len(r.Hook))
	}
	fmt.Fprintf(w, "%-*s\t", width, "hook")
	fmt.Fprintln(w, "calls\tfuel\ttime\tbytes in\tbytes out\thost calls\tpages grown\t")
	var notes []string
	for _, r := range rows {
		if r.Calls == 0 {
			fmt.Fprintf(w, "%-*s\t0\t-\t-\t-\t-\t-\t-\t\n", width, r.Hook)
			continue
		}
		fmt.Fprintf(w, "%-*s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t\n", width, r.Hook, r.Calls, r.Fuel, microseconds(r.TimeNS),
			r.BytesIn, r.BytesOut, r.HostCalls, r.Pages)
		if n := r.Failed + r.Faulted; n > 0 {
			notes = append(notes, fmt.Sprintf("%s failed in %d of %d calls: %s", r.Hook, n, r.Calls, cli.OneLine(r.Problem)))
		}
	}
	_ = w.Flush()
	for _, note := range notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}

func microseconds(ns int64) string {
	return fmt.Sprintf("%.1f µs", float64(ns)/float64(time.Microsecond))
}
