package sandbox

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a thread has worked at most is no less than what it has, and little more.
func TestThreadTimeAtMost(t *testing.T) {
	t.Parallel()
	if thread, _ := threadTime(); thread == 0 {
		t.Skip("this system does not tell what a thread works")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const sameClock = 10 * time.Microsecond // two of them may differ by that in a turn
	for began := time.Now(); time.Since(began) < 5*turn; {
		own, before := threadTime()
		thread, most := threadTimeAtMost()
		_, after := threadTime()
		require.Equal(t, own, thread)
		require.GreaterOrEqual(t, most+sameClock, before)
		require.LessOrEqual(t, most, after+turn+sameClock)
	}
}

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
