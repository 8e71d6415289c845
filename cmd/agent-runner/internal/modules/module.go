// Package modules implements the "module" command, which creates, builds, tests and inspects
// modules.
package modules

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module"
)

// NewModule returns the "module" command.
func NewModule(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "module",
		Short: "Create, build, test and inspect modules",
	}
	cli.Group(cmd, newModuleNew(e), newBuild(e), newTest(e), newCall(e), newInspect(e), newBench(e), newReplay(e))
	for _, sub := range cmd.Commands() {
		if sub.Name() != "new" {
			hosting.TinyGoFlag(sub, e)
		}
	}
	return cmd
}

// moduleFlags adds the flags of commands that load one module.
func moduleFlags(cmd *cobra.Command, output, cacheDir *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "`text` or json")
	cmd.Flags().
		StringVar(cacheDir, "cache-dir", "", "cache compiled modules in `DIR`; \"\" disables the cache (default: $"+hosting.EnvCacheDir+", else the user's cache directory)")
}

// moduleHost creates a host for a command that loads one module.
func moduleHost(ctx context.Context, e *cli.Env, cmd *cobra.Command, o host.Options) (*host.Host, error) {
	o.Logger = hosting.NewLogger(cli.NewScreen(e), false)
	h, _, err := hosting.NewHost(ctx, e, cmd.Flags().Changed("cache-dir"), o)
	return h, err
}

// loadModule loads the module at a path on a host of its own. closeBoth closes the module and
// the host.
func loadModule(
	ctx context.Context, e *cli.Env, cmd *cobra.Command, path string, o host.Options,
) (m *host.Module, closeBoth func(), err error) {
	h, err := moduleHost(ctx, e, cmd, o)
	if err != nil {
		return nil, nil, err
	}
	if m, err = hosting.LoadModule(ctx, e, h, path); err != nil {
		hosting.CloseHost(h)
		return nil, nil, cli.BeforeRun(ctx, err)
	}
	return m, func() {
		m.Close()
		hosting.CloseHost(h)
	}, nil
}

// powersText lists the capabilities of a module: first those of the ABI and those that need a grant,
// then the others, one line for each effect, then the number of those that have no effect.
func powersText(imports []module.Power) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(&b, "\nIt can\n")
	if len(imports) == 0 {
		fmt.Fprintln(&b, "  only answer: it imports nothing")
	}
	var others, idle []module.Power
	for _, p := range imports {
		switch {
		case p.Module == contract.ImportModule, p.Grant != "":
			fmt.Fprintf(w, "  %s\t%s%s\n", p.Name, p.Does, condition(p))
		case strings.HasPrefix(p.Does, "nothing"):
			idle = append(idle, p)
		default:
			others = append(others, p)
		}
	}
	// List only the first of several powers with the same effect. Extism plug-ins have
	// many of them.
	for i, p := range others {
		same := func(o module.Power) bool { return o.Does == p.Does }
		if slices.ContainsFunc(others[:i], same) {
			continue
		}
		if slices.ContainsFunc(others[i+1:], same) {
			p.Name += ", …"
		}
		fmt.Fprintf(w, "  %s\t%s\n", p.Name, p.Does)
	}
	if len(idle) > 0 {
		fmt.Fprintf(w, "  %s\t%s\n", cli.Count(int64(len(idle)), "other"), cli.OneLine(idle[0].Does))
	}
	_ = w.Flush()
	return b.String()
}

// condition returns a suffix with the grant that a power needs, or "" if it needs none.
func condition(p module.Power) string {
	if p.Grant != "" {
		return " (if granted " + p.Grant + ")"
	}
	return ""
}
