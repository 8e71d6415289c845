package hosting

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/toolchain"
)

// TinyGoFlag adds the flag --tinygo to a command that builds source folders.
func TinyGoFlag(cmd *cobra.Command, e *cli.Env) {
	cmd.Flags().BoolVar(&e.TinyGo, "tinygo", false, "if the module is a folder of Go sources, build it with TinyGo")
}

// Buildable returns path if it is not a folder. If path is a source folder, Buildable builds the
// module and returns the path of the result; for a script, it returns the path of the script.
func Buildable(ctx context.Context, e *cli.Env, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, nil // loading reports a missing or invalid file
	}
	p, err := Project(e, path)
	if err != nil {
		return "", err
	}
	if p.Language.Script {
		return filepath.Join(path, p.Main), nil
	}
	fmt.Fprintf(e.Err, "building %s (%s)\n", path, p.What())
	return p.Output(), p.Build(ctx, p.Output())
}

// LoadModule loads the module at a path. It builds a source folder first.
func LoadModule(ctx context.Context, e *cli.Env, h *host.Host, path string) (*module.Module, error) {
	path, err := Buildable(ctx, e, path)
	if err != nil {
		return nil, err
	}
	return h.Load(ctx, path, host.Limits{})
}

// BuildModules builds the source folders that a file and its sub-agents name as modules, and puts the
// results in their place.
func BuildModules(ctx context.Context, e *cli.Env, f *agentfile.File) error {
	return buildModules(ctx, e, f, map[agentfile.Path]agentfile.Path{})
}

// buildModules implements BuildModules. built has the results by folder, so that each folder is built
// once.
func buildModules(ctx context.Context, e *cli.Env, f *agentfile.File, built map[agentfile.Path]agentfile.Path) error {
	for _, list := range []struct {
		at      string
		entries []agentfile.Middleware
	}{{"rings.outer", f.Rings.Outer}, {"middlewares", f.Middlewares}, {"rings.inner", f.Rings.Inner}} {
		for i := range list.entries {
			folder := list.entries[i].Module
			if _, ok := built[folder]; !ok {
				path, err := Buildable(ctx, e, string(folder))
				if ctx.Err() != nil {
					return cli.BeforeRun(ctx, err)
				}
				if err != nil {
					return agentfile.ErrorAt(f, fmt.Sprintf("%s[%d].module", list.at, i), err)
				}
				built[folder] = agentfile.Path(path)
			}
			list.entries[i].Module = built[folder]
		}
	}
	for i := range f.Agents {
		if err := buildModules(ctx, e, f.Agents[i].Spec(), built); err != nil {
			return err
		}
	}
	return nil
}

// Project detects the language and toolchain of a source folder.
func Project(e *cli.Env, dir string) (*toolchain.Project, error) {
	p, err := toolchain.Find(dir)
	switch {
	case err != nil:
		return nil, cli.Usagef("%w", err)
	case e.TinyGo && p.Language.Name != "Go":
		return nil, cli.Usagef("--tinygo: %s is written in %s; TinyGo builds only Go modules", dir, p.Language.Name)
	case e.TinyGo:
		p.TinyGo = toolchain.TinyGo
	}
	return p, nil
}
