// Package process reads the resources that processes use. It needs Linux.
package process

import (
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// A Stat holds the state of a process.
type Stat struct {
	PID      int
	Parent   int           // its PID
	Used     time.Duration // processor time, including that of children that have ended
	Resident int64         // resident memory in bytes
}

// Read returns the state of the process with the given id. It returns the zero value and an error if
// there is no such process.
func Read(pid int) (Stat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Stat{}, err
	}
	return stat(p)
}

func stat(p procfs.Proc) (Stat, error) {
	const tick = 10 * time.Millisecond // the unit of processor times
	s, err := p.Stat()
	if err != nil {
		return Stat{}, err
	}
	ticks := int(s.UTime) + int(s.STime) + s.CUTime + s.CSTime
	return Stat{PID: p.PID, Parent: s.PPID, Used: time.Duration(ticks) * tick, Resident: int64(s.ResidentMemory())}, nil
}

// Children returns the states of the children of a process that have not ended.
func Children(pid int) ([]Stat, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	var children []Stat
	for _, p := range all {
		if s, err := stat(p); err == nil && s.Parent == pid { // an error means that the process has ended
			children = append(children, s)
		}
	}
	return children, nil
}

// Used returns the processor time that this process has used, or 0 if it is unknown. Its resolution is
// finer than that of [Stat].
func Used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
