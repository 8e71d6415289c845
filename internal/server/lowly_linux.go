package server

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// lowPriority is what compilers have too, see package sandbox.
const lowPriority = 10

// lowly does work that nobody waits for as one waits for a run, on a thread of its own,
// which the system lets run when others have no need to. The thread ends with the work:
// who has lowered its priority may not raise it.
func lowly(work func()) {
	ended := make(chan any)
	go func() {
		runtime.LockOSThread()
		// The kernel tells priorities as 20 less the nice value. A server that is itself lower stays so.
		if is, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()); err != nil || is > 20-lowPriority {
			_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), lowPriority) // or it is as others are
		}
		var panicked any
		defer func() { ended <- panicked }()
		defer func() { panicked = recover() }()
		work()
	}()
	if panicked := <-ended; panicked != nil {
		panic(panicked) // the caller's, who answers for it
	}
}

// standBack lets threads that wait for a processor have this one. Left to itself the
// system takes it from one that calculates after several milliseconds only, if all of its
// processors are busy, and a run needs one dozens of times for a moment each.
func standBack() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
