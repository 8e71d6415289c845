package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// cost tells what a run of each peer takes of the machine, for so long each: unlike
// the clock, that hardly depends on what else the machine does.
func cost(ctx context.Context, peers []*peer, each time.Duration, profile string) error {
	fmt.Println("| | runs | us of processors | of these in the kernel | page faults | switches | allocations | KB allocated |\n|---|---|---|---|---|---|---|---|")
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
		fmt.Printf("| %s | %d | %.0f | %.0f | %.1f | %.1f | %.0f | %.1f |\n", p.name, n, per(user+system)/1e3, per(system)/1e3,
			per(u1.Minflt-u0.Minflt), per(u1.Nvcsw-u0.Nvcsw+u1.Nivcsw-u0.Nivcsw),
			per(int64(after.Mallocs-before.Mallocs)), per(int64(after.TotalAlloc-before.TotalAlloc))/1e3)
	}
	return nil
}

// used is what a peer's processes have used of the processors so far: this one, and
// those beside it.
func (p *peer) used() (time.Duration, error) {
	now, err := stats.Now()
	if err != nil {
		return 0, err
	}
	sum := now.Used
	for _, process := range p.processes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(b), ") ") // behind the name of the program
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			return 0, fmt.Errorf("/proc/%d/stat is %q", process, b)
		}
		for _, ticks := range fields[11:13] { // of a hundredth of a second: in the program, and in the kernel for it
			n, err := strconv.ParseInt(ticks, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * time.Second / 100
		}
	}
	return sum, nil
}

// used is what this process has used so far.
func used() (syscall.Rusage, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u, err
}
