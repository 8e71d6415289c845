package sandbox

import (
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threadTime returns the current thread and the processor time that it has used, or zeros if the
// time is unknown.
func threadTime() (thread int, used time.Duration) {
	var ts unix.Timespec
	// The system call does not block, so it bypasses Go's scheduler, which would take as
	// long again.
	const clock = unix.CLOCK_THREAD_CPUTIME_ID
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0, 0
	}
	return unix.Gettid(), time.Duration(ts.Nano())
}

// threadTimes caches the processor times of some threads, by their number modulo the length.
var threadTimes [64]struct {
	mu     sync.Mutex
	thread int
	used   time.Duration
	at     time.Duration // time of reading it, since processStart
}

// threadTimeAtMost returns an upper bound of threadTime, at most yieldInterval above it, in a third
// of the time. This is possible because a thread's processor time grows no faster than real time.
func threadTimeAtMost() (thread int, used time.Duration) {
	thread = unix.Gettid()
	now := time.Since(processStart)
	c := &threadTimes[thread%len(threadTimes)]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.thread != thread || now-c.at > yieldInterval {
		c.thread, c.used = threadTime()
		c.at = now
	}
	return c.thread, c.used + now - c.at
}
