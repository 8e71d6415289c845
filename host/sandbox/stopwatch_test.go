package sandbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a guest cannot have done between two looks is not counted as its time: others
// had the processor.
func TestStopwatchOfABusyMachine(t *testing.T) {
	t.Parallel()
	now := time.Duration(0)
	w := startWatch(false)
	pass := func(d time.Duration) {
		now += d
		w.lap(now)
	}
	pass(time.Millisecond)
	require.Equal(t, time.Millisecond, w.used)
	pass(time.Second)
	require.Equal(t, time.Millisecond+mostLap, w.used)
	require.Equal(t, time.Second-mostLap, w.waited)
	w.running = false
	pass(time.Second)
	require.Equal(t, time.Millisecond+mostLap, w.used)
	require.Equal(t, 2*time.Second-mostLap, w.waited)
}
