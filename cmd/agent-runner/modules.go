package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/host/client"
)

func newModules(e *env) *cobra.Command {
	return group(&cobra.Command{Use: "modules", Short: "Upload, list and delete modules on a server"},
		modulesPush(e), modulesList(e), modulesShow(e), modulesRemove(e))
}

func modulesPush(e *env) *cobra.Command {
	var name, version string
	var named bool
	cmd := remoteCommand(e, &cobra.Command{
		Use:   "push PATH",
		Short: "Upload a module",
		Long: `Uploads a module: a .wasm file, a script (.ts, .js) with its imports, a source folder,
which is built first, or an Extism manifest (.json). The server verifies and compiles
the module and calls its describe before it stores it, and reports its capabilities.

By default, the name is the file name without extension and the version is the one the
module reports. A version is immutable: a different module needs a new version. With
--name "", the module is stored under its digest only.`,
		Example: `  agent-runner modules push redact.wasm
  agent-runner modules push policy.ts --name tool-policy --version 1.2.0`,
		PreRun: func(cmd *cobra.Command, _ []string) { named = cmd.Flags().Changed("name") },
	}, func(ctx context.Context, r *remote, args []string) error {
		p, err := readParcel(ctx, e, args[0])
		if err != nil {
			return err
		}
		if !named {
			name = p.name
		}
		if name == "" && version != "" {
			return usagef("--version needs a name: --name NAME --version %s", version)
		}
		m, err := r.push(ctx, p, name, version)
		if err != nil {
			return err
		}
		r.warn(m.About.Warnings)
		return r.print(m, func() string { return pushedText(m, name) })
	})
	cmd.Flags().StringVar(&name, "name", "", "store it as `NAME` (default: the file name without extension)")
	cmd.Flags().StringVar(&version, "version", "", "store it as version `V` of its name (default: the version the module reports)")
	tinyGoFlag(cmd, e)
	return cmd
}

// push uploads a module and shows the progress.
func (r *remote) push(ctx context.Context, p *parcel, name, version string) (*client.Module, error) {
	progress := &uploadProgress{remote: r, size: int64(len(p.content))}
	if r.output != "text" {
		progress = nil
	}
	m, err := r.PutModule(ctx, p.upload(name, version, progress.stage))
	progress.end()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.path, err)
	}
	return m, nil
}

// An uploadProgress shows the progress of an upload. A nil one shows nothing.
type uploadProgress struct {
	remote *remote
	size   int64 // in bytes
	open   bool  // the progress line is not terminated
}

func (u *uploadProgress) stage(p client.Progress) {
	if u == nil {
		return
	}
	u.end()
	switch p.Stage {
	case "receiving":
		u.line("received %d%% of %s", 100*min(p.Bytes, u.size)/max(u.size, 1), size(u.size))
	case "received":
		u.remote.note(faint, "received %s: %s", size(p.Bytes), p.Digest)
	case "waiting":
		u.line("waiting in the compile queue")
	case "compiling":
		u.remote.note(faint, "verifying and compiling")
	case "described":
		u.remote.note(faint, "verified, compiled and described")
	}
}

// line shows a temporary progress line, if the terminal can erase it.
func (u *uploadProgress) line(format string, args ...any) {
	if newScreen(u.remote.env).color {
		fmt.Fprintf(u.remote.env.err, format, args...)
		u.open = true
	}
}

// end erases the progress line.
func (u *uploadProgress) end() {
	if u != nil && u.open {
		fmt.Fprint(u.remote.env.err, "\r\x1b[K")
		u.open = false
	}
}

// warn prints the warnings of a server.
func (r *remote) warn(warnings []string) {
	if r.output != "text" {
		return
	}
	for _, w := range warnings {
		r.note(amber, "warning: %s", w)
	}
}

func pushedText(m *client.Module, name string) string {
	var b strings.Builder
	called := "stored"
	for _, n := range m.Names {
		if n.Name == name {
			called = "stored as " + n.Name + "@" + n.Version
		}
	}
	fmt.Fprintf(&b, "%s: %s\n", called, m.Digest)
	b.WriteString(aboutText(m))
	return b.String()
}

// aboutText describes a module and its capabilities.
func aboutText(m *client.Module) string {
	var b strings.Builder
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", name, oneLine(text))
		}
	}
	row("is", strings.TrimSpace(m.About.Name+" "+m.About.Version)+after(": ", m.About.Description))
	row("hooks", strings.Join(m.About.Hooks, ", "))
	row("messages", m.About.Messages)
	for _, p := range m.About.Powers {
		if p.Grant != "" {
			row("can", p.Does+" (if granted "+p.Grant+")")
		}
	}
	row("limits", fmt.Sprintf("%s of memory; %s fuel and %s per hook call", size(m.About.Limits.MemoryBytes), thousands(m.About.Limits.Fuel), m.About.Limits.Timeout))
	row("blocked", m.Blocked)
	return b.String()
}

func modulesList(e *env) *cobra.Command {
	var limit listLimit
	cmd := remoteCommand(e, &cobra.Command{Use: "list", Short: "List modules, newest first"}, func(ctx context.Context, r *remote, _ []string) error {
		rows, err := limit.max()
		if err != nil {
			return err
		}
		list, err := client.Collect(rows, client.MaxPage, func(p client.Page) ([]*client.Module, string, error) { return r.Modules(ctx, p) })
		if err != nil {
			return err
		}
		return r.print(list, func() string {
			rows := [][]string{{"NAME", "DIGEST", "KIND", "SIZE", "HOOKS", "SINCE"}}
			for _, m := range list {
				var names []string
				for _, n := range m.Names {
					names = append(names, n.Name+"@"+n.Version)
				}
				if m.Blocked != "" {
					names = append(names, "(blocked: "+m.Blocked+")")
				}
				if len(names) == 0 {
					names = []string{"-"}
				}
				rows = append(rows, []string{strings.Join(names, ", "), shortDigest(m.Digest), m.Kind, size(m.Size), strings.Join(m.About.Hooks, " "), since(m.Created)})
			}
			return table("no modules on "+r.Server(), rows)
		})
	})
	limit.add(cmd, 100)
	return cmd
}

func modulesShow(e *env) *cobra.Command {
	return remoteCommand(e, &cobra.Command{Use: "show MODULE", Short: "Show a module, named by digest, name, or name@version"},
		func(ctx context.Context, r *remote, args []string) error {
			m, err := r.Module(ctx, args[0])
			if err != nil {
				return err
			}
			return r.print(m, func() string {
				text := m.Digest + "\n" + aboutText(m)
				for _, w := range m.About.Warnings {
					text += "  warning   " + oneLine(w) + "\n"
				}
				return text
			})
		})
}

func modulesRemove(e *env) *cobra.Command {
	return remoteCommand(e, &cobra.Command{Use: "rm MODULE", Short: "Delete a module that no agent's newest version uses"},
		func(ctx context.Context, r *remote, args []string) error {
			if err := r.DeleteModule(ctx, args[0]); err != nil {
				return err
			}
			return r.done(map[string]string{"module": args[0], "did": "forgotten"}, "deleted module %s", args[0])
		})
}
