package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/toolchain"
)

// newBuild returns the command that builds a module.
func newBuild(e *env) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build a module from its sources",
		Long: `Builds the module in a source folder with its language's toolchain. The output is
DIR/NAME.wasm, where NAME is the name of the folder. If a toolchain is missing, the
command reports it and how to install it. TypeScript and JavaScript modules need no
build: run and test them directly.

With --tinygo, a Go module is built by TinyGo. The result is much smaller and about
twice as fast, but has no goroutines, no recover, and only part of reflect.`,
		Example: "  agent-runner module build ./guard\n  agent-runner module build --tinygo ./guard",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			ctx, stop := interruptible(cmd.Context(), func() {})
			defer stop()
			p, err := project(e, dir)
			if err != nil {
				return err
			}
			if out == "" {
				out = p.Output()
			}
			if p.Language.Script {
				_, err := fmt.Fprintf(e.out, "%s modules need no build: agent-runner run -m %s\n", p.Language.Name, filepath.Join(dir, p.Main))
				return err
			}
			if err := p.Build(ctx, out); err != nil {
				return beforeRun(ctx, err)
			}
			info, err := os.Stat(out)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.out, "%s  %s, from %s\n", out, size(info.Size()), p.What())
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the module to `FILE` (default: DIR/NAME.wasm)")
	return cmd
}

// project detects the language and toolchain of a source folder.
func project(e *env, dir string) (*toolchain.Project, error) {
	p, err := toolchain.Find(dir)
	switch {
	case err != nil:
		return nil, usagef("%w", err)
	case e.tinyGo && p.Language.Name != "Go":
		return nil, usagef("--tinygo: %s is written in %s; TinyGo builds only Go modules", dir, p.Language.Name)
	case e.tinyGo:
		p.TinyGo = "tinygo"
	}
	return p, nil
}

// loadModule loads the module at a path. It builds a source folder first.
func loadModule(ctx context.Context, e *env, h *host.Host, path string) (*module.Module, error) {
	path, err := buildable(ctx, e, path)
	if err != nil {
		return nil, err
	}
	return h.Load(ctx, path, host.Limits{})
}

// buildable returns path if it is a file. If it is a source folder, buildable builds the
// module and returns the path of the result.
func buildable(ctx context.Context, e *env, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, nil // loading reports a missing or invalid file
	}
	p, err := project(e, path)
	if err != nil {
		return "", err
	}
	if p.Language.Script {
		return filepath.Join(path, p.Main), nil
	}
	fmt.Fprintf(e.err, "building %s (%s)\n", path, p.What())
	return p.Output(), p.Build(ctx, p.Output())
}

// withNames is like buildable, but keeps the function names in the module, and builds it
// in a temporary folder. The caller must call remove.
func withNames(ctx context.Context, e *env, path string) (built string, remove func(), err error) {
	remove = func() {}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, remove, nil
	}
	p, err := project(e, path)
	switch {
	case err != nil:
		return "", remove, err
	case p.Language.Script:
		return path, remove, nil // profiling rejects scripts later
	}
	dir, err := os.MkdirTemp("", "agent-runner-build-")
	if err != nil {
		return "", remove, err
	}
	fmt.Fprintf(e.err, "building %s (%s), with function names\n", path, p.What())
	p.Names = true
	built = filepath.Join(dir, filepath.Base(p.Output()))
	return built, func() { _ = os.RemoveAll(dir) }, p.Build(ctx, built)
}
