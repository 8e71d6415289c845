package sandbox

import (
	"sync/atomic"
	"time"
)

// A guest gets its fuel in slices. The limits are checked, and Go's garbage collector can
// stop the world, only between two slices, and the whole process waits for the collector. So
// a slice should be short. But the host call at its end takes about 100 ns, so it should not
// be too short either. The times of a Go guest with 1 KB and 100 KB of JSON, relative to
// slices of 1,000,000:
//
//	100,000  1.01      10,000  1.08
//	 40,000  1.02       5,000  1.14
//	 20,000  1.04       2,500  1.24      1,000  1.5
//
// The time of a slice depends on what the guest does, and can change suddenly: a load that
// waits for the previous one takes 50 to 100 ns instead of less than 1, and the first store
// to a page 1 to 3 µs, or 20 µs on a virtual machine that has not had that memory before. So
// slices grow while they are fast and shrink while they are slow, and the largest is so small
// that it takes only milliseconds even then. 1 fuel can touch one page, or nearly two. So
// slices are smaller for memories with more pages than can be touched in that time, and
// minimal after a memory has grown. (With largeMemory at 8 MB, which guests use to read
// 100 KB, such a hook would take 1.2 times as long.)
const (
	minSlice            = 2_500
	maxSlice            = 40_000
	maxLargeMemorySlice = 4_000
	largeMemory         = 16 << 20              // bytes
	fastSlice           = 25 * time.Microsecond // after a faster slice, the next one doubles
	longSlice           = 4 * fastSlice         // after a longer slice, the next one halves
	slowSlice           = time.Millisecond      // after a longer slice, the next one is minSlice
)

// The time to touch a page depends on the machine. At 20 µs a page, slices would have to be so small that ordinary
// guests would be slow too. So the sandbox measures the processor time of slices: if one slice has used a processor
// for more than maxHeld, all slices of its code have shortSlice units of fuel for shortSlicePeriod, and the code runs
// at half its speed. In measurements, no slice of code from a compiler took as long as maxHeld. The elapsed time of a
// slice is not enough, because other threads may have used the processor. Reading the processor time takes 0.3 to
// 1 µs, so it is read only for code with slow slices. A measurement begins with a cached value that is at most
// yieldInterval too high. It therefore detects every slice that exceeds maxHeld by more than yieldInterval.
const (
	maxHeld          = 4 * time.Millisecond
	shortSlice       = 250
	shortSlicePeriod = time.Minute
)

// yieldInterval is the time for which a guest uses the processor before it yields. Go preempts a
// goroutine only after 10 ms, which is long for other goroutines that wait, and for the garbage
// collector, for which all goroutines wait.
const yieldInterval = time.Millisecond

// slicing decides the size of the slices of a call.
type slicing struct {
	slice  int64         // the size of the next slice
	max    int64         // the maximum size of a slice
	memory uint64        // the size of the memory when the last slice began
	ran    time.Duration // the guest's running time when the last slice began
	called time.Duration // the guest's running time when the last import returned

	yielded time.Duration // the guest's running time when it last yielded
}

// slicing returns the initial slicing of a call whose memory has the given size in bytes. If the
// code has recently held the processor for too long, all slices are short.
func (c *code) slicing(memory uint64) slicing {
	s := slicing{slice: minSlice, max: maxSlice, memory: memory}
	if c.heldHost.happened() {
		s.slice, s.max = shortSlice, shortSlice
	}
	return s
}

// adapt sets the size of the next slice according to the time that the last one took, and to the
// size and growth of the memory. ran is the guest's running time, and memory is the size of its
// memory in bytes.
func (s *slicing) adapt(ran time.Duration, memory uint64) {
	elapsed := ran - s.ran
	s.ran = ran
	switch {
	case elapsed > slowSlice:
		s.slice = minSlice
	case elapsed > longSlice:
		s.slice = max(minSlice, s.slice/2)
	case elapsed < fastSlice:
		s.slice = min(maxSlice, 2*s.slice)
	}
	if memory > s.memory {
		s.memory, s.slice = memory, minSlice
	}
	if memory > largeMemory {
		s.slice = min(maxLargeMemorySlice, s.slice)
	}
	s.slice = min(s.max, s.slice)
}

// shouldYield reports whether the guest has to yield the processor. If so, it records ran, the
// guest's running time, as the time of the yield.
func (s *slicing) shouldYield(ran time.Duration) bool {
	if ran-s.yielded <= yieldInterval {
		return false
	}
	s.yielded = ran
	return true
}

// checkSlice makes the slices of the guest's code short, in this call and in later ones, if the
// last slice has used a processor for more than maxHeld. If processor time is not measured yet, a
// long slice only starts the measurement. Only the time since the last import counts, because Go
// can preempt the guest during an import.
func (in *Instance) checkSlice(ran time.Duration) {
	since, code := max(in.meter.ran, in.meter.called), in.image.code
	switch {
	case ran-since <= maxHeld:
	case !in.watch.marks:
		code.slow.note()
		in.watch.marks = true
		in.watch.mark()
	case in.watch.worked(since) > maxHeld:
		code.heldHost.note()
		in.meter.max = shortSlice
	}
}

// afterImport records the end of an import, which may have taken a long time. ran is the guest's
// running time.
func (in *Instance) afterImport(ran time.Duration) {
	if ran-in.meter.called > yieldInterval {
		in.watch.mark() // the processor time of the import does not count as the guest's
	}
	in.meter.called = ran
}

// recently records when an event last happened. It is safe for concurrent use.
type recently struct{ at atomic.Int64 } // time since processStart; 0: never

var processStart = time.Now()

// note records that the event has just happened.
func (r *recently) note() { r.at.Store(int64(time.Since(processStart))) }

// happened reports whether the event has happened within shortSlicePeriod.
func (r *recently) happened() bool {
	at := r.at.Load()
	return at != 0 && time.Since(processStart)-time.Duration(at) < shortSlicePeriod
}
