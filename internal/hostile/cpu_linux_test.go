package hostile

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time of this thread, or 0 if it is unknown.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// threadDelay returns the time for which this thread was ready to run but other threads ran, or 0
// if it is unknown. A busy machine adds this time to every measurement.
func threadDelay() time.Duration {
	b, err := os.ReadFile("/proc/thread-self/schedstat")
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n)
}
