package sandbox

import (
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threadTime is which thread this is, and how much processor time it has used.
func threadTime() (thread int, used time.Duration) {
	var ts unix.Timespec
	// It does not wait, so Go's scheduler need not hear of it: that took as long again.
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, 0
	}
	return unix.Gettid(), time.Duration(ts.Nano())
}

// worked is what some threads had used when they were last asked, each at its number.
var worked [64]struct {
	mu     sync.Mutex
	thread int
	used   time.Duration
	at     time.Duration // by time.Since(processStart)
}

// threadTimeAtMost is threadTime for a third of what that takes, and up to turn more than
// there is: no thread uses more time than passes.
func threadTimeAtMost() (thread int, most time.Duration) {
	thread = unix.Gettid()
	now := time.Since(processStart)
	w := &worked[thread%len(worked)]
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.thread != thread || now-w.at > turn {
		w.thread, w.used = threadTime()
		w.at = now
	}
	return w.thread, w.used + now - w.at
}
