package modules

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
)

// watch reruns the conversations whenever a source in the module's folder or one of the named
// conversations changes, until ctx is done.
func (t *tester) watch(ctx context.Context, cmd *cobra.Command, args []string, cacheDir string) error {
	folder, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		folder = filepath.Dir(folder)
	}
	for {
		seen := sources(folder, args[1:])
		if err := t.run(ctx, cmd, args, cacheDir); err != nil && ctx.Err() == nil {
			fmt.Fprintln(t.env.Err, cli.Clean(err.Error()))
		}
		if ctx.Err() != nil {
			return nil
		}
		for _, path := range t.written {
			seen.add(path)
		}
		fmt.Fprintln(t.env.Err, "waiting for changes; stop with Ctrl-C")
		for maps.Equal(seen, sources(folder, args[1:])) {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(300 * time.Millisecond):
			}
		}
	}
}

// versions holds the versions of files by absolute path.
type versions map[string]version

// A version identifies the content of a file. It is zero if the file does not exist.
type version struct {
	modified time.Time
	size     int64
}

// add adds the current version of a file.
func (v versions) add(path string) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return
	}
	v[abs] = version{}
	if info, err := os.Stat(abs); err == nil {
		v[abs] = version{info.ModTime(), info.Size()}
	}
}

// sourceExtensions lists the extensions of the files that are watched in a module's folder: sources,
// and files that scripts import. Other files, such as logs, may be the output of another command.
var sourceExtensions = []string{
	".txtar", ".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx", ".json", ".txt", ".md",
	".go", ".mod", ".rs", ".toml", ".c", ".h", ".wat", ".wasm",
}

// sources returns the versions of the sources in a folder and of the named files. It skips hidden
// folders, those of build outputs and dependencies, and the file to which the process writes its
// output.
func sources(folder string, named []string) versions {
	out := versions{}
	for _, path := range named {
		out.add(path)
	}
	_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir() && path != folder &&
			(strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "target" || d.Name() == "build"):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains(sourceExtensions, filepath.Ext(path)):
			return nil
		}
		if !isOutput(path) {
			out.add(path)
		}
		return nil
	})
	return out
}

// isOutput reports whether the process writes its output to the file at path.
func isOutput(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if own, err := f.Stat(); err == nil && os.SameFile(own, info) {
			return true
		}
	}
	return false
}
