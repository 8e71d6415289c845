package main

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A halt is one of all goroutines, for the collector or anybody else.
type halt struct {
	took time.Duration // until all had come to a halt
	// worked is what the process used of the processors from before a halt was asked
	// for until it was over: more than what the guest went on for. What else the machine
	// does changes it little, unless it takes the processor from whoever is about to ask.
	// It can be of another halt than took is.
	worked time.Duration
}

// stopping is how long the runtime took to bring all goroutines to a halt, each
// time it did, for the collector or anybody else.
type stopping []metrics.Sample

func newStopping() stopping {
	return stopping{{Name: "/sched/pauses/stopping/gc:seconds"}, {Name: "/sched/pauses/stopping/other:seconds"}}
}

// read returns how many halts there were so far, by the most that they took.
func (s stopping) read() map[time.Duration]uint64 {
	metrics.Read(s)
	all := map[time.Duration]uint64{}
	for i := range s {
		h := s[i].Value.Float64Histogram()
		for j, n := range h.Counts {
			all[time.Duration(h.Buckets[j+1]*1e9)] += n
		}
	}
	return all
}

// longestHalt lets do run while another goroutine halts the world again and
// again, and returns the most that it took and worked.
func longestHalt(do func() error) (longest halt, err error) {
	s := newStopping()
	before, done := s.read(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		for {
			collections := stats.NumGC
			began := processorTime()
			runtime.ReadMemStats(&stats)
			// If a collection was under way, this waited for its end, with the world going on.
			if worked := processorTime() - began; stats.NumGC == collections {
				longest.worked = max(longest.worked, worked)
			}
			select {
			case <-done:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	})
	err = do()
	close(done)
	wg.Wait()
	for took, n := range s.read() {
		if n > before[took] {
			longest.took = max(longest.took, took)
		}
	}
	return longest, err
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// stolenTime is what the hypervisor has kept of the processors since the machine
// began; 0 where that is not known.
func stolenTime() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	if err != nil || len(fields) < 9 {
		return 0
	}
	n, err := strconv.ParseInt(fields[8], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * (time.Second / 100)
}

// touchMachine uses memory and gives it back. A page that a virtual machine never had
// takes ten times as long when it is touched for the first time, which would be found
// in whatever touches it first.
func touchMachine() error {
	const size = 1 << 30
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return err
	}
	for at := 0; at < size; at += os.Getpagesize() {
		b[at] = 1
	}
	return syscall.Munmap(b)
}
