package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/module"
)

func newModule(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "module",
		Short: "Write, test and look at modules",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModuleNew(e), newBuild(e), newTest(e), newCall(e), newInspect(e), newBench(e), newReplay(e))
	return cmd
}

func newInspect(e *env) *cobra.Command {
	var output, cacheDir string
	cmd := &cobra.Command{
		Use:     "inspect PATH",
		Short:   "Show what a module is, and what it can do",
		Long:    "Shows what a module is and what it can do, without running it in an agent: only its describe is called.",
		Example: "  agent-runner module inspect redact.wasm",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want one module: agent-runner module inspect PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return usagef("-o is %q; want text or json", output)
			}
			ctx, stop := interruptible(cmd.Context(), func() {})
			defer stop()
			h, err := moduleHost(ctx, e, cmd, cacheDir)
			if err != nil {
				return err
			}
			defer closeHost(h)
			m, err := h.Load(ctx, args[0], host.Limits{})
			if err != nil {
				return beforeRun(ctx, err)
			}
			defer m.Close()
			if output == "json" {
				return inspectJSON(e, m)
			}
			_, err = fmt.Fprint(e.out, clean(inspectText(m)))
			return err
		},
	}
	moduleFlags(cmd, &output, &cacheDir)
	return cmd
}

// moduleFlags are those of every command that looks at one module.
func moduleFlags(cmd *cobra.Command, output, cacheDir *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "`text` or json")
	cmd.Flags().StringVar(cacheDir, "cache-dir", "", "keep compiled modules in `DIR`, \"\" for nowhere; default: $"+envCacheDir+", else the user's cache")
}

// moduleHost makes a host for them.
func moduleHost(ctx context.Context, e *env, cmd *cobra.Command, cacheDir string) (*host.Host, error) {
	c := runCommand{env: e, screen: newScreen(e)}
	return newHost(ctx, e, cmd.Flags().Changed("cache-dir"), host.Options{CacheDir: cacheDir, Logger: c.logger()})
}

// limits are those that a module runs under, by their names in agent.yaml.
func limits(l module.Limits) map[string]any {
	return map[string]any{
		"timeout": l.HookTime.String(), "memory": l.MemoryBytes, "fuel": l.Fuel, "stack_bytes": l.StackBytes, "module_bytes": l.ModuleBytes,
		"input_bytes": l.InputBytes, "output_bytes": l.OutputBytes, "reply_bytes": l.ReplyBytes,
		"log_bytes": l.LogBytes, "log_line_bytes": l.LogLineBytes,
		"host_calls": l.HostCalls, "instances": l.Instances, "nesting": l.Nesting,
	}
}

func inspectJSON(e *env, m *module.Module) error {
	return printJSON(e, struct {
		module.Info
		Limits map[string]any `json:"limits"`
	}{m.Info(), limits(m.Limits())})
}

// printJSON writes a value for programs.
func printJSON(e *env, v any) error {
	enc := json.NewEncoder(e.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func inspectText(m *module.Module) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(key, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", key, oneLine(fmt.Sprintf(format, args...)))
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
	row("size", "%s", size(info.Size))
	row("transport", "%s", info.Transport)
	row("hooks", "%s", list(info.Hooks, "none: it is never called"))
	if len(d.Events) > 0 {
		row("observes", "%s", list(d.Events, ""))
	}
	row("messages", "%s", map[string]string{
		"": "full: all of them, in each input", abi.MessagesFull: "full: all of them, in each input",
		abi.MessagesLazy: "lazy: it asks for those it wants", abi.MessagesNone: "none",
	}[d.Messages])
	row("memory", "%s at first, at most %s", size(info.Memory.First), size(info.Memory.Most))
	row("reset", "%s", info.Instances)
	row("limits", "%v a hook, %s in, %s out, %d host calls", m.Limits().HookTime, size(int64(m.Limits().InputBytes)), size(int64(m.Limits().OutputBytes)), m.Limits().HostCalls)
	_ = w.Flush()

	b.WriteString(powersText(info.Imports))
	if len(d.ConfigSchema) > 0 {
		var schema bytes.Buffer
		if json.Indent(&schema, d.ConfigSchema, "  ", "  ") == nil {
			fmt.Fprintf(&b, "\nIts configuration, as JSON Schema\n  %s\n", schema.String())
		}
	}
	for _, warning := range info.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s\n", oneLine(warning))
	}
	return b.String()
}

// powersText says what a module can do: what the ABI gives it first.
func powersText(imports []module.Power) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(&b, "\nIt can\n")
	if len(imports) == 0 {
		fmt.Fprintln(&b, "  nothing but answer: it imports nothing")
	}
	var wasi, idle []module.Power
	for _, p := range imports {
		switch {
		case p.Module == abi.ImportModule:
			fmt.Fprintf(w, "  %s\t%s%s\n", p.Name, p.Does, condition(p))
		case strings.HasPrefix(p.Does, "nothing"):
			idle = append(idle, p)
		default:
			wasi = append(wasi, p)
		}
	}
	for _, p := range wasi {
		fmt.Fprintf(w, "  %s\t%s\n", p.Name, p.Does)
	}
	if len(idle) > 0 {
		fmt.Fprintf(w, "  %s\t%s\n", count(int64(len(idle)), "other"), oneLine(idle[0].Does))
	}
	_ = w.Flush()
	return b.String()
}

// condition says when a power is denied.
func condition(p module.Power) string {
	switch {
	case p.Denied:
		return " (this version denies it)"
	case p.Grant != "":
		return " (if granted " + p.Grant + ")"
	}
	return ""
}

func list[T ~string](items []T, none string) string {
	if len(items) == 0 {
		return none
	}
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = string(item)
	}
	return strings.Join(out, ", ")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
