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

	"github.com/agent-runner/agent-runner/bench/internal/process"
)

// A halt holds the maximums of several stop-the-world pauses, for the garbage collector or another
// caller.
type halt struct {
	took time.Duration // longest time until all goroutines had stopped
	// worked is the most processor time that the process used from the request of a pause to its
	// end. It includes more than the guest's time until it stopped. The machine's other load
	// changes it little, unless the requesting thread loses its processor. took and worked may
	// belong to different pauses.
	worked time.Duration
}

// stopping holds the runtime's metrics of the time that it took to stop all goroutines, in pauses
// for the garbage collector and for other callers.
type stopping []metrics.Sample

func newStopping() stopping {
	return stopping{{Name: "/sched/pauses/stopping/gc:seconds"}, {Name: "/sched/pauses/stopping/other:seconds"}}
}

// read returns the number of pauses so far, by an upper bound of the time that they took to stop
// all goroutines.
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

// longestHalt runs do while another goroutine stops the world repeatedly. It returns the maximum of
// took and of worked.
func longestHalt(do func() error) (longest halt, err error) {
	s := newStopping()
	before, done := s.read(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		for {
			collections := stats.NumGC
			began := process.Used()
			runtime.ReadMemStats(&stats)
			// ReadMemStats waits for a running collection to end, with the world running. Ignore
			// such a wait.
			if worked := process.Used() - began; stats.NumGC == collections {
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

// stolenTime returns the processor time that the hypervisor has given to other machines since boot,
// or 0 if it is not known.
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

// touchMachine writes to 1 GiB of memory and releases it. The first write to a page that a virtual
// machine has never used takes ten times as long as later ones. Without touchMachine, this time would
// distort the first measurement that uses new pages.
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
