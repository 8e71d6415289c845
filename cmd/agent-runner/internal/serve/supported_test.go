package serve

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
)

// TestSupported checks that a server refuses to start without a protection that the system lacks.
func TestSupported(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, system string
		command      serveCommand
		want         string
	}{
		{name: "linux", system: "linux", command: serveCommand{memoryLimit: "3GiB"}},
		{name: "confined", system: "darwin", want: "servers are confined on Linux only, and this is darwin"},
		{name: "unconfined", system: "windows", command: serveCommand{noConfine: true}},
		{
			name: "memory", system: "windows", command: serveCommand{noConfine: true, memoryLimit: "3GiB"},
			want: "--memory-limit is enforced on Linux only, and this is windows",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.command.env = &cli.Env{Own: true}
			err := tt.command.supported(tt.system)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}
