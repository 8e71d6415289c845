package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/internal/contract"
)

// NewVersion returns the "version" command.
func NewVersion(e *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(e.Out, VersionLine())
			return err
		},
	}
}

// VersionLine returns the version of the program, of the ABI and of Go, and the platform.
func VersionLine() string {
	return fmt.Sprintf("agent-runner %s (%s, %s/%s, %s)", Version(), contract.ImportModule, runtime.GOOS, runtime.GOARCH,
		runtime.Version())
}

// Version returns the version in the build info, or "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}
