package main

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/process"
)

// cost prints the resources that this process uses for one run of each peer. It repeats each peer's
// run for the given time, and writes a CPU profile if its path is not empty. Unlike wall time,
// these resources hardly depend on the machine's other load.
func cost(ctx context.Context, peers []*peer, each time.Duration, profile string) error {
	fmt.Println(
		"| | runs | us of processors | of these in the kernel | page faults | switches | allocations | KB allocated |\n|---|---|---|---|---|---|---|---|",
	)
	for _, p := range peers {
		for range 20 { // warms up
			if err := p.checked(ctx); err != nil {
				return err
			}
		}
		stop, err := profileTo(profile)
		if err != nil {
			return err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		u0, err := used()
		if err != nil {
			return err
		}
		n, _, err := repeat(each, func() error { return p.checked(ctx) })
		if err != nil {
			return err
		}
		u1, err := used()
		if err != nil {
			return err
		}
		runtime.ReadMemStats(&after)
		stop()
		per := func(x int64) float64 { return float64(x) / float64(n) }
		user, system := u1.Utime.Nano()-u0.Utime.Nano(), u1.Stime.Nano()-u0.Stime.Nano()
		fmt.Printf(
			"| %s | %d | %.0f | %.0f | %.1f | %.1f | %.0f | %.1f |\n",
			p.name,
			n,
			per(user+system)/1e3,
			per(system)/1e3,
			per(u1.Minflt-u0.Minflt),
			per(u1.Nvcsw-u0.Nvcsw+u1.Nivcsw-u0.Nivcsw),
			per(int64(after.Mallocs-before.Mallocs)),
			per(int64(after.TotalAlloc-before.TotalAlloc))/1e3,
		)
	}
	return nil
}

// used returns the processor time that the peer's processes have used so far, including this
// process.
func (p *peer) used() (time.Duration, error) {
	sum := process.Used()
	for _, id := range p.processes {
		s, err := process.Read(id)
		if err != nil {
			return 0, err
		}
		sum += s.Used
	}
	return sum, nil
}

// used returns the resources that this process has used so far.
func used() (syscall.Rusage, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u, err
}
