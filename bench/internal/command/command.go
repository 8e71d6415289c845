// Package command implements the main function of the benchmark commands.
package command

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/agent-runner/agent-runner/host"
)

// Main opens a host and calls measure with it and the command's arguments. The usage is the
// command's name and the names of its arguments, all of which are required. Main exits with status
// 2 if the number of arguments is wrong, and with status 1 if measure fails.
func Main(usage string, measure func(ctx context.Context, h *host.Host, args []string) error) {
	words := strings.Fields(usage)
	if len(os.Args) != len(words) {
		fmt.Fprintln(os.Stderr, "usage:", usage)
		os.Exit(2)
	}
	if err := withHost(context.Background(), measure); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", words[0], err)
		os.Exit(1)
	}
}

func withHost(ctx context.Context, measure func(ctx context.Context, h *host.Host, args []string) error) error {
	h, err := host.New(ctx, nil)
	if err != nil {
		return err
	}
	defer h.Close(ctx)
	return measure(ctx, h, os.Args[1:])
}
