// Command cmd builds Go guests into build/wasm:
//
//	go run ./internal/guestbuild/cmd ./examples/wasm-middlewares/...
//
// Each argument is a folder of the repository, or a folder followed by /... for all guests below
// it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("name the folders to build: ./examples/wasm-middlewares/... is all of the examples")
	}
	root, err := guestbuild.Root()
	if err != nil {
		return err
	}
	var folders []string
	for _, arg := range args {
		found, err := guestbuild.Find(root, arg)
		if err != nil {
			return err
		}
		folders = append(folders, found...)
	}
	paths, err := guestbuild.All(ctx, root, folders, runtime.NumCPU())
	if err != nil {
		return err
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if rel, err := filepath.Rel(root, path); err == nil {
			path = rel
		}
		fmt.Printf("%s\t%.1f MB\n", path, float64(info.Size())/1e6)
	}
	return nil
}
