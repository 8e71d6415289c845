package sandbox

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is which thread this is, and how much processor time it has used.
func threadTime() (thread int, used time.Duration) {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0, 0
	}
	return unix.Gettid(), time.Duration(ts.Nano())
}
