package modules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// newInspect returns the command that shows the metadata and the capabilities of a module.
func newInspect(e *cli.Env) *cobra.Command {
	var output, cacheDir string
	cmd := &cobra.Command{
		Use:   "inspect PATH",
		Short: "Show a module's metadata, capabilities and limits",
		Long: `Shows a module's metadata and capabilities without running it in an agent: it only
calls the module's describe. If this host rejects the module, the command prints the
reason and exits with code 2.

The limits are the defaults that apply if agent.yaml sets no others.`,
		Example: "  agent-runner module inspect redact.wasm",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("want one module: agent-runner module inspect PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return cli.Usagef("-o is %q; want text or json", output)
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {})
			defer stop()
			m, closeBoth, err := loadModule(ctx, e, cmd, args[0], host.Options{CacheDir: cacheDir})
			if err != nil {
				return err
			}
			defer closeBoth()
			if output == "json" {
				return inspectJSON(e, m)
			}
			_, err = fmt.Fprint(e.Out, cli.Clean(inspectText(m)))
			return err
		},
	}
	moduleFlags(cmd, &output, &cacheDir)
	return cmd
}

// A limit is one limit of a module, with its name in agent.yaml.
type limit struct {
	name  string
	value any    // for JSON output
	text  string // for text output
}

// limits lists the limits in l, in the order of the output.
func limits(l policy.Limits) []limit {
	bytes := func(name string, n int64, of string) limit { return limit{name, n, cli.Size(n) + " " + of} }
	number := func(name string, n int64, of string) limit { return limit{name, n, cli.Thousands(n) + " " + of} }
	return []limit{
		{"timeout", l.HookTime.String(), l.HookTime.String() + " of its own time per hook call"},
		number("fuel", l.Fuel, "per hook call"),
		number("run_fuel", l.RunFuel, "per run, over all hooks"),
		bytes("memory", l.MemoryBytes, "per instance"),
		bytes("stack_bytes", l.StackBytes, "of stack"),
		number("instances", int64(l.Instances), "concurrent calls per run"),
		number("nesting", int64(l.Nesting), "levels of nested modules"),
		number("host_calls", int64(l.HostCalls), "per hook call"),
		bytes("input_bytes", int64(l.InputBytes), "of input per hook call"),
		bytes("output_bytes", int64(l.OutputBytes), "of output per hook call"),
		bytes("reply_bytes", int64(l.ReplyBytes), "per host call reply"),
		bytes("log_bytes", int64(l.LogBytes), "printed and logged per hook call"),
		bytes("log_line_bytes", int64(l.LogLineBytes), "per log line"),
		bytes("module_bytes", l.ModuleBytes, "per module file"),
	}
}

// limitsByName returns the limits in l for JSON output.
func limitsByName(l policy.Limits) map[string]any {
	all := map[string]any{}
	for _, limit := range limits(l) {
		all[limit.name] = limit.value
	}
	return all
}

// verdict summarizes the inspection of a module that was loaded.
func verdict(info *module.Info) string {
	switch n := len(info.Warnings); {
	case len(info.Hooks) == 0:
		return "accepted, but never called"
	case n > 0:
		return "accepted, with " + cli.Count(int64(n), "warning")
	default:
		return "accepted"
	}
}

func inspectJSON(e *cli.Env, m *module.Module) error {
	info := m.Info()
	return cli.PrintJSON(e, struct {
		module.Info
		Limits  map[string]any `json:"limits"`
		Verdict string         `json:"verdict"`
	}{info, limitsByName(m.Limits()), verdict(&info)})
}

// inspectText describes a module in text: its metadata, capabilities, limits, configuration schema and
// warnings.
func inspectText(m *module.Module) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(key, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", key, cli.OneLine(fmt.Sprintf(format, args...)))
	}
	info := m.Info()
	d := info.Description
	row("file", "%s", info.Path)
	if d.Name != "" {
		row("name", "%s", strings.TrimSpace(d.Name+" "+d.Version))
	}
	if d.Description != "" {
		row("about", "%s", d.Description)
	}
	row("digest", "sha256:%s", info.Digest)
	row("size", "%s", cli.Size(info.Size))
	row("transport", "%s", info.Transport)
	row("hooks", "%s", cli.List(info.Hooks, "none: runs never call it"))
	if len(d.Events) > 0 {
		row("observes", "%s", cli.List(d.Events, ""))
	}
	row("messages", "%s", map[string]string{
		"": "full: each input has all messages", contract.MessagesFull: "full: each input has all messages",
		contract.MessagesLazy: "lazy: the module requests messages it needs", contract.MessagesNone: "none",
	}[d.Messages])
	row("memory", "%s initially, at most %s", cli.Size(info.Memory.First), cli.Size(info.Memory.Most))
	if info.Memory.Image > 0 {
		row("image", "%s, copied into each instance", cli.Size(info.Memory.Image))
	}
	row("reset", "%s", info.Instances)
	row("verdict", "%s", verdict(&info))
	_ = w.Flush()

	b.WriteString(powersText(info.Imports))
	fmt.Fprintf(&b, "\nLimits, by their names in agent.yaml\n")
	for _, l := range limits(m.Limits()) {
		fmt.Fprintf(w, "  %s\t%s\n", l.name, l.text)
	}
	_ = w.Flush()
	if len(d.ConfigSchema) > 0 {
		var schema bytes.Buffer
		if json.Indent(&schema, d.ConfigSchema, "  ", "  ") == nil {
			fmt.Fprintf(&b, "\nConfiguration, as JSON Schema\n  %s\n", schema.String())
		}
	}
	for _, warning := range info.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s\n", cli.OneLine(warning))
	}
	return b.String()
}
