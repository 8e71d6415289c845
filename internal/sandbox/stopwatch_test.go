package sandbox

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestThreadTimeAtMost checks that the upper bound of a thread's processor time is at most
// yieldInterval too high.
func TestThreadTimeAtMost(t *testing.T) {
	t.Parallel()
	if thread, _ := threadTime(); thread == 0 {
		t.Skip("this system does not report the processor time of a thread")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const sameClock = 10 * time.Microsecond // maximum difference of two clocks in a yieldInterval
	for began := time.Now(); time.Since(began) < 5*yieldInterval; {
		own, before := threadTime()
		thread, bound := threadTimeAtMost()
		_, after := threadTime()
		require.Equal(t, own, thread)
		require.GreaterOrEqual(t, bound+sameClock, before)
		require.LessOrEqual(t, bound, after+yieldInterval+sameClock)
	}
}

// TestStopwatchOnBusyMachine checks that time beyond maxAdvance between two readings does not count
// as the guest's: others used the processor.
func TestStopwatchOnBusyMachine(t *testing.T) {
	t.Parallel()
	now := time.Duration(0)
	w := startWatch(false)
	pass := func(d time.Duration) {
		now += d
		w.advance(now)
	}
	pass(time.Millisecond)
	require.Equal(t, time.Millisecond, w.used)
	pass(time.Second)
	require.Equal(t, time.Millisecond+maxAdvance, w.used)
	require.Equal(t, time.Second-maxAdvance, w.waited)
	w.running = false
	pass(time.Second)
	require.Equal(t, time.Millisecond+maxAdvance, w.used)
	require.Equal(t, 2*time.Second-maxAdvance, w.waited)
}
