package remote

import (
	"context"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewModules returns the "modules" command.
func NewModules(e *cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "modules", Short: "Upload, list and delete modules on a server"},
		modulesPush(e), modulesList(e), modulesShow(e), modulesRemove(e))
}

func modulesPush(e *cli.Env) *cobra.Command {
	var name, version string
	var named bool
	cmd := Command(e, &cobra.Command{
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
	}, func(ctx context.Context, r *Session, args []string) error {
		p, err := ReadUpload(ctx, e, args[0])
		if err != nil {
			return err
		}
		if !named {
			name = p.name
		}
		if name == "" && version != "" {
			return cli.Usagef("--version needs a name: --name NAME --version %s", version)
		}
		m, err := r.push(ctx, p, name, version)
		if err != nil {
			return err
		}
		r.warn(m.About.Warnings)
		return r.Print(m, func() string { return pushedText(m, name) })
	})
	cmd.Flags().StringVar(&name, "name", "", "store it as `NAME` (default: the file name without extension)")
	cmd.Flags().
		StringVar(&version, "version", "", "store it as version `V` of its name (default: the version the module reports)")
	hosting.TinyGoFlag(cmd, e)
	return cmd
}

// push uploads a module and shows the progress.
func (r *Session) push(ctx context.Context, p *upload, name, version string) (*api.Module, error) {
	progress := &uploadProgress{remote: r, size: int64(len(p.Content))}
	if r.Output != "text" {
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
	remote *Session
	size   int64 // in bytes
	open   bool  // the progress line is not terminated
}

func (u *uploadProgress) stage(p api.Progress) {
	if u == nil {
		return
	}
	u.end()
	switch p.Stage {
	case "receiving":
		u.line("received %d%% of %s", 100*min(p.Bytes, u.size)/max(u.size, 1), cli.Size(u.size))
	case "received":
		u.remote.Note(cli.Faint, "received %s: %s", cli.Size(p.Bytes), p.Digest)
	case "waiting":
		u.line("waiting in the compile queue")
	case "compiling":
		u.remote.Note(cli.Faint, "verifying and compiling")
	case "described":
		u.remote.Note(cli.Faint, "verified, compiled and described")
	}
}

// line shows a temporary progress line, if the terminal can erase it.
func (u *uploadProgress) line(format string, args ...any) {
	if cli.NewScreen(u.remote.Env).Color {
		fmt.Fprintf(u.remote.Env.Err, format, args...)
		u.open = true
	}
}

// end erases the progress line.
func (u *uploadProgress) end() {
	if u != nil && u.open {
		fmt.Fprint(u.remote.Env.Err, "\r\x1b[K")
		u.open = false
	}
}

// warn prints the server's warnings as notes, unless the output is JSON.
func (r *Session) warn(warnings []string) {
	if r.Output != "text" {
		return
	}
	for _, w := range warnings {
		r.Note(cli.Amber, "warning: %s", w)
	}
}

func pushedText(m *api.Module, name string) string {
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
func aboutText(m *api.Module) string {
	var b strings.Builder
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", name, cli.OneLine(text))
		}
	}
	row("is", strings.TrimSpace(m.About.Name+" "+m.About.Version)+cli.After(": ", m.About.Description))
	row("hooks", strings.Join(m.About.Hooks, ", "))
	row("messages", m.About.Messages)
	for _, p := range m.About.Powers {
		if p.Grant != "" {
			row("can", p.Does+" (if granted "+p.Grant+")")
		}
	}
	row(
		"limits",
		fmt.Sprintf("%s of memory; %s fuel and %s per hook call",
			cli.Size(m.About.Limits.MemoryBytes), cli.Thousands(m.About.Limits.Fuel), m.About.Limits.Timeout),
	)
	row("blocked", m.Blocked)
	return b.String()
}

func modulesList(e *cli.Env) *cobra.Command {
	var limit ListLimit
	var name string
	cmd := Command(
		e,
		&cobra.Command{Use: "list", Short: "List modules, newest first"},
		func(ctx context.Context, r *Session, _ []string) error {
			rows, err := limit.Max()
			if err != nil {
				return err
			}
			list, err := client.Collect(rows, func(p client.Page) ([]*api.Module, string, error) {
				p.Name = name
				return r.Modules(ctx, p)
			})
			if err != nil {
				return err
			}
			return r.Print(list, func() string {
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
					rows = append(rows, []string{
						strings.Join(names, ", "),
						shortDigest(m.Digest),
						m.Kind,
						cli.Size(m.SizeBytes),
						strings.Join(m.About.Hooks, " "),
						cli.Since(m.Created),
					})
				}
				return Table("no modules on "+r.Server(), rows)
			})
		},
	)
	limit.Add(cmd, 100)
	return nameFlag(cmd, &name)
}

func modulesShow(e *cli.Env) *cobra.Command {
	return Command(
		e,
		&cobra.Command{Use: "show MODULE", Short: "Show a module, named by digest, name, or name@version"},
		func(ctx context.Context, r *Session, args []string) error {
			m, err := r.Module(ctx, args[0])
			if err != nil {
				return err
			}
			return r.Print(m, func() string {
				text := m.Digest + "\n" + aboutText(m)
				for _, w := range m.About.Warnings {
					text += "  warning   " + cli.OneLine(w) + "\n"
				}
				return text
			})
		},
	)
}

func modulesRemove(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "rm MODULE", Short: "Delete a module that is not in use",
		Long: `Delete a module and its names. A module is in use if the newest version of the gateway uses it, or a
version of an agent that is the newest, or that an alias or an active rollout refers to.`},
		func(ctx context.Context, r *Session, args []string) error {
			if err := r.DeleteModule(ctx, args[0]); err != nil {
				return err
			}
			return r.Done(map[string]string{"module": args[0], "did": "deleted"}, "deleted module %s", args[0])
		})
}
