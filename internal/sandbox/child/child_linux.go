package child

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// thisProgram returns the path of the file that this process runs, even if its name now belongs
// to another file.
func thisProgram() (string, error) { return "/proc/self/exe", nil }

// childEnviron returns the whole environment of a child.
func childEnviron() []string { return []string{childEnv + "=1"} }

// childAttr returns attributes that make a child the leader of a process group, which killChild
// kills.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killChild(p *os.Process) error { return unix.Kill(-p.Pid, unix.SIGKILL) }

// processorTime returns the processor time that a process has used.
func processorTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED: the scheduler's exact sum, of all threads
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|scheduled), &t) // as clock_getcpuclockid of the C library computes it
	return time.Duration(t.Nano()), err
}

// limitChild sets the resource limits of this process, a child, and lowers its priority. memory is
// in bytes.
func limitChild(memory, cpuSeconds uint64) error {
	const low = 10
	if err := unix.Setpriority(unix.PRIO_PGRP, 0, low); err != nil {
		return err
	}
	// RLIMIT_DATA counts private writable memory, such as Go's heap. RLIMIT_AS would also count the large ranges of
	// addresses that Go and the C library reserve and never use.
	data := dataBytes() + memory + memory/4
	limits := map[int]unix.Rlimit{
		unix.RLIMIT_DATA:  {Cur: data, Max: data},
		unix.RLIMIT_FSIZE: {Cur: memory, Max: memory},
		unix.RLIMIT_CORE:  {},
		// At the first limit the kernel sends SIGXCPU, so that the parent can report the cause. One second of
		// processor time later it kills the process.
		unix.RLIMIT_CPU: {Cur: cpuSeconds, Max: cpuSeconds + 1},
	}
	for resource, limit := range limits {
		if err := unix.Setrlimit(resource, &limit); err != nil {
			return err
		}
	}
	return nil
}

// dataBytes returns the size in bytes of this process's private writable memory, or 0 if that is
// unknown.
func dataBytes() uint64 {
	var size, resident, shared, text, lib, data uint64
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(b), &size, &resident, &shared, &text, &lib, &data); err != nil {
		return 0
	}
	return data * uint64(os.Getpagesize())
}
