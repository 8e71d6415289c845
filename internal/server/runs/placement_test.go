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
	servers, share := []string{"a", "b", "c", "d"}, map[string]int{}
	for i := range 4000 {
		info, delays := &journal.RunInfo{ID: fmt.Sprint("run_", i)}, []time.Duration{}
		for _, name := range servers {
			ready := &placement{self: name, servers: servers, ready: func([]journal.Pin) bool { return true }}
			if delays = append(delays, ready.delay(info)); ready.delay(info) == 0 {
				share[name]++
			}
			missing := &placement{self: name, servers: servers, ready: func([]journal.Pin) bool { return false }}
			require.Equal(t, compileDelay, missing.delay(info)-ready.delay(info))
		}
		require.ElementsMatch(t, []time.Duration{0, shareDelay, 2 * shareDelay, 2 * shareDelay}, delays)
	}
	for _, name := range servers {
		require.InDelta(t, 1000, share[name], 150, name)
	}
	alone := &placement{self: "a", ready: func([]journal.Pin) bool { return false }}
	require.Zero(t, alone.delay(&journal.RunInfo{ID: "run_1"}))
}
