package sandbox

import (
	"sync/atomic"
	"time"
)

const (
	// A guest gets its fuel in slices. Only between two of them does anything look
	// at its limits, and can Go's garbage collector stop the world, for which
	// everybody in the process waits: so a slice is to be short. But the call of
	// the host that ends it takes some 100 ns, so it is not to be too short. In times
	// of what a Go guest takes with a slice of 1,000,000, for 1 KB and 100 KB of JSON:
	//
	//	100,000  1.01      10,000  1.08
	//	 40,000  1.02       5,000  1.14
	//	 20,000  1.04       2,500  1.24      1,000  1.5
	//
	// How much fuel is short depends on what the guest does, and may change at once: a
	// load that waits for the one before takes 50 to 100 ns instead of less than 1, and
	// a store that is the first one to its page 1 to 3 us, or 20 us where the machine is
	// a virtual one that has not had that memory before. So slices grow while they are
	// quick and shrink when they are not, and the largest is so small that even then it
	// takes no more than ms. One fuel may touch a page, or nearly two: where there are
	// more pages than can be touched in that time, slices are smaller always, and where
	// memory has just grown, as small as they begin. (With largeMemory at 8 MB, what
	// guests of compilers have when they read 100 KB, such a hook takes 1.2 times as
	// long.)
	leastSlice  = 2_500
	mostSlice   = 40_000
	mostOfLarge = 4_000
	largeMemory = 16 << 20
	quick       = 25 * time.Microsecond // below that, the next slice is twice as large
	long        = 4 * quick             // above that, half as large
	slow        = time.Millisecond      // above that, the least

	// What a page takes is the machine's affair, and where it takes 20 us no slice is
	// small enough that honest guests could have always. So it is measured: code of
	// which one slice kept a processor for mostHeld has shortSlice for the next while,
	// which is to be looked at wherever it can be. No code of compilers that was
	// measured comes near that; it would run half as fast. That a slice took so long
	// says little: others may have had the processor. To ask how long it kept that takes
	// 0.3 to 1 us, so it is asked of code that is suspect, and when its calls begin only so
	// exactly that none is missed which kept it for turn longer.
	mostHeld   = 4 * time.Millisecond
	shortSlice = 250
	shortFor   = time.Minute

	// turn is for how long a guest keeps the processor from others.
	turn = time.Millisecond
)

// slicing is how large the slices of a call are.
type slicing struct {
	slice  int64         // how much to grant next
	most   int64         // that a slice may be
	memory uint64        // that there was when the last slice began
	ran    time.Duration // how long the guest had run when the last slice began
	called time.Duration // when the last import was over

	yielded time.Duration // how long it had run when it last let others have the processor
}

// slices are those that a call of c begins with.
func (c *code) slices(memory uint64) slicing {
	s := slicing{slice: leastSlice, most: mostSlice, memory: memory}
	if c.heldUp.lately() {
		s.slice, s.most = shortSlice, shortSlice
	}
	return s
}

// measure sets the next slice by how long the last one took.
func (s *slicing) measure(ran time.Duration, memory uint64) {
	took := ran - s.ran
	s.ran = ran
	switch {
	case took > slow:
		s.slice = leastSlice
	case took > long:
		s.slice = max(leastSlice, s.slice/2)
	case took < quick:
		s.slice = min(mostSlice, 2*s.slice)
	}
	if memory > s.memory {
		s.memory, s.slice = memory, leastSlice
	}
	if memory > largeMemory {
		s.slice = min(mostOfLarge, s.slice)
	}
	s.slice = min(s.most, s.slice)
}

// yields reports whether the guest has to let others have the processor for a
// moment, as it has from time to time. Go takes it from a goroutine after 10 ms only,
// which is long for who waits for it, or for the collector that everybody waits for.
func (s *slicing) yields(ran time.Duration) bool {
	if ran-s.yielded <= turn {
		return false
	}
	s.yielded = ran
	return true
}

// heldUp makes the slices of the guest's code short, if the one that is over kept a
// processor for too long. In an import it can be taken from the guest.
func (in *Instance) heldUp(ran time.Duration) {
	since, code := max(in.tank.ran, in.tank.called), in.image.code
	switch {
	case ran-since <= mostHeld:
	case !in.watch.marks:
		code.suspect.note()
		in.watch.marks = true
		in.watch.mark()
	case in.watch.worked(since) > mostHeld:
		code.heldUp.note()
		in.tank.most = shortSlice
	}
}

// afterImport is told when an import that may have taken long is over.
func (in *Instance) afterImport(ran time.Duration) {
	if ran-in.tank.called > turn {
		in.watch.mark() // what the import worked is not the guest's
	}
	in.tank.called = ran
}

// An event is something that is remembered for a while. It is safe for concurrent use.
type event struct{ at atomic.Int64 } // by time.Since(processStart); 0: never

var processStart = time.Now()

func (e *event) note() { e.at.Store(int64(time.Since(processStart))) }

// lately reports whether it was within the last shortFor.
func (e *event) lately() bool {
	at := e.at.Load()
	return at != 0 && time.Since(processStart)-time.Duration(at) < shortFor
}
