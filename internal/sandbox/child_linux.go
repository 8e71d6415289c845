package sandbox

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// thisProgram is the file that this process runs, even if another version lies
// at its path by now.
func thisProgram() (string, error) { return "/proc/self/exe", nil }

// childEnviron is all the environment that a child has.
func childEnviron() []string { return []string{childEnv + "=1"} }

// childAttr makes the child the head of a group of processes.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killChild(p *os.Process) error { return unix.Kill(-p.Pid, unix.SIGKILL) }

// limitChild bounds this process, a child.
func limitChild(memory, cpuSeconds uint64) error {
	const low = 10
	if err := unix.Setpriority(unix.PRIO_PGRP, 0, low); err != nil {
		return err
	}
	// What can be written to, and is not shared, counts as data: Go's heap, but
	// not the addresses that Go and the C library reserve without using them,
	// which would make a limit on the address space mean little.
	limits := map[int]uint64{
		unix.RLIMIT_DATA:  dataBytes() + memory + memory/4,
		unix.RLIMIT_FSIZE: memory,
		unix.RLIMIT_CPU:   cpuSeconds,
		unix.RLIMIT_CORE:  0,
	}
	for which, most := range limits {
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}

// dataBytes is what counts as data now, 0 if that cannot be known.
func dataBytes() uint64 {
	var size, resident, shared, text, lib, data uint64
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(b), &size, &resident, &shared, &text, &lib, &data); err != nil {
		return 0
	}
	return data * uint64(osPage)
}
