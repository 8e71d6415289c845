package modules

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/hosting"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// newBuild returns the command that builds a module.
func newBuild(e *cli.Env) *cobra.Command {
	var out string
	var strip bool
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build a module from its sources",
		Long: `Builds the module in a source folder with its language's toolchain. The output is
DIR/NAME.wasm, where NAME is the name of the folder. If a toolchain is missing, the
command reports it and how to install it. TypeScript and JavaScript modules need no
build: run and test them directly.

With --tinygo, a Go module is built by TinyGo. The result is much smaller and about
twice as fast, but has no goroutines, no recover, and only part of reflect.

The module contains the names of its functions, which faults and profiles show. The
command prints their size; --strip leaves them out. They take no memory of a run.`,
		Example: "  agent-runner module build ./guard\n  agent-runner module build --tinygo ./guard",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			ctx, stop := cli.Interruptible(cmd.Context(), func() {})
			defer stop()
			p, err := hosting.Project(e, dir)
			if err != nil {
				return err
			}
			if out == "" {
				out = p.Output()
			}
			if p.Language.Script {
				_, err := fmt.Fprintf(e.Out, "%s modules need no build: agent-runner run -m %s\n",
					p.Language.Name, filepath.Join(dir, p.Main))
				return err
			}
			p.Strip = strip
			if err := p.Build(ctx, out); err != nil {
				return cli.BeforeRun(ctx, err)
			}
			b, err := os.ReadFile(out)
			if err != nil {
				return err
			}
			names := "no function names"
			if n := len(wasm.NameSection(b)); n > 0 {
				names = cli.Size(int64(n)) + " of it function names"
			}
			_, err = fmt.Fprintf(e.Out, "%s  %s, %s, from %s\n", out, cli.Size(int64(len(b))), names, p.What())
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the module to `FILE` (default: DIR/NAME.wasm)")
	cmd.Flags().BoolVar(&strip, "strip", false, "leave out the names of functions")
	return cmd
}
