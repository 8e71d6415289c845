// Command exampletable writes the table of the example middlewares into their README. A row has the
// purpose of an example, its hooks with their fuel, its size, and the grants that it can use. Run
// the command in the repository:
//
//	go run ./internal/exampletable
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// folder contains the examples, relative to the repository's root.
const folder = "examples/wasm-middlewares"

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "exampletable:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root, err := guestbuild.Root()
	if err != nil {
		return err
	}
	loader, err := module.NewLoader(ctx, &module.LoaderOptions{CacheDir: testcache.Modules()})
	if err != nil {
		return err
	}
	defer loader.Close(ctx)
	table, err := write(ctx, loader, root, true)
	if err != nil {
		return err
	}
	path := filepath.Join(root, filepath.FromSlash(folder), "README.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, _, after, err := cut(string(page))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(before+table+after), 0o644)
}
