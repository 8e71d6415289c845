package admission

import "golang.org/x/sys/unix"

// schedYield yields this processor to waiting threads. If all processors are busy, the kernel
// preempts a thread only after milliseconds, and a run needs a processor dozens of times for short
// moments.
func schedYield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
