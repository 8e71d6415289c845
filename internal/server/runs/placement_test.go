package runs

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// TestPlacement checks that servers divide waiting runs evenly and without overlap, that a server
// leaves runs to others that have the modules compiled, and that a single server does not wait.
func TestPlacement(t *testing.T) {
	servers, share := []string{"a", "b", "c"}, map[string]int{}
	for i := range 3000 {
		info, first := &journal.RunInfo{ID: fmt.Sprint("run_", i)}, 0
		for _, name := range servers {
			for _, ready := range []bool{true, false} {
				p := &placement{self: name, servers: servers, ready: func([]journal.Pin) bool { return ready }}
				want := time.Duration(0)
				if p.serverOf(info.ID) != name {
					want += shareDelay
				} else if ready {
					share[name]++
					first++
				}
				if !ready {
					want += compileDelay
				}
				require.Equal(t, want, p.delay(info))
			}
		}
		require.Equal(t, 1, first)
	}
	for _, name := range servers {
		require.InDelta(t, 1000, share[name], 150, name)
	}
	alone := &placement{self: "a", ready: func([]journal.Pin) bool { return false }}
	require.Zero(t, alone.delay(&journal.RunInfo{ID: "run_1"}))
}
