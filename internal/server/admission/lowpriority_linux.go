package admission

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// lowPriority is the nice value of checks and compilations. Package sandbox's compile child has the
// same one.
const lowPriority = 10

// RunLowPriority runs fn on an OS thread with a raised nice value, so that runs come first. A
// thread may not lower its nice value again, so it ends with fn. RunLowPriority panics if fn does.
func RunLowPriority(fn func()) {
	done := make(chan any)
	go func() {
		runtime.LockOSThread()
		// The kernel reports 20 minus the nice value. Keep a higher nice value of the server.
		if prio, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()); err != nil || prio > 20-lowPriority {
			_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), lowPriority) // on failure, fn runs at the usual priority
		}
		var panicked any
		defer func() { done <- panicked }()
		defer func() { panicked = recover() }()
		fn()
	}()
	if panicked := <-done; panicked != nil {
		panic(panicked)
	}
}

// schedYield yields this processor to waiting threads. If all processors are busy, the kernel
// preempts a thread only after milliseconds, and a run needs a processor dozens of times for short
// moments.
func schedYield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
