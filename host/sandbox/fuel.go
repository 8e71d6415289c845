package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero/api"
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
	//	 20,000  1.04       2,500  1.24
	//
	// How much fuel is short depends on what the guest does, and may change at once: a
	// load that waits for the one before takes 50 to 100 ns instead of less than 1, and
	// a store that is the first one to its page 1 to 3 us, or 20 us where the machine is
	// a virtual one that has not had that memory before. So slices grow while they are
	// quick and shrink when they are not, and the largest is so small that even then it
	// takes no more than ms. One fuel may touch a page, or nearly two: where there are
	// more pages than can be touched in that time, slices are smaller always. (With
	// largeMemory at 8 MB, what guests of compilers have when they read 100 KB, such a
	// hook takes 1.2 times as long.)
	leastSlice  = 2_500
	mostSlice   = 40_000
	mostOfLarge = 4_000
	largeMemory = 16 << 20
	quick       = 25 * time.Microsecond // below that, the next slice is twice as large
	long        = 4 * quick             // above that, half as large
	slow        = time.Millisecond      // above that, the least

	// turn is for how long a guest keeps the processor from others.
	turn = time.Millisecond

	// importFuel is what calling an import costs, and fuelBytes how many bytes
	// that it reads or writes cost one: about what the time would buy.
	importFuel = 100
	fuelBytes  = 16

	// startDepth is the stack in bytes that a start function has, before the
	// limit of its image can be set.
	startDepth = 256 << 10

	// stackPiece is how much of its stack a guest gets at once. A stack grows by being
	// copied to one twice as large, in one stretch: a copy of 64 MB takes 50 ms. What
	// code is made to take beyond what was estimated shows between two pieces, before
	// that comes to much. overStack is what one frame may take in excess.
	stackPiece = 256 << 10
	overStack  = 1 << 20
)

// tank is the fuel of one call.
type tank struct {
	granted int64 // to the guest
	imports int64 // used by imports
	since   int64 // used by imports since the limits were looked at
	rest    int64 // of what was granted, at the end

	stack int64 // granted in bytes, as estimated

	slice int64         // how much to grant next
	ran   time.Duration // how long the guest had run when the last slice began

	yielded time.Duration // how long it had run when it last let others have the processor
}

// measure sets the next slice by how long the last one took.
func (t *tank) measure(ran time.Duration, memory uint64) {
	took := ran - t.ran
	t.ran = ran
	switch {
	case took > slow:
		t.slice = leastSlice
	case took > long:
		t.slice = max(leastSlice, t.slice/2)
	case took < quick:
		t.slice = min(mostSlice, 2*t.slice)
	}
	if memory > largeMemory {
		t.slice = min(mostOfLarge, t.slice)
	}
}

// yields reports whether the guest has to let others have the processor for a
// moment, as it has from time to time. Go takes it from a goroutine after 10 ms only,
// which is long for who waits for it, or for the collector that everybody waits for.
func (t *tank) yields(ran time.Duration) bool {
	if ran-t.yielded <= turn {
		return false
	}
	t.yielded = ran
	return true
}

// used is what the call has used, given what the guest has left.
func (t *tank) used(left int64) int64 { return t.granted - left + t.imports }

// fill prepares the counters for a call.
func (in *Instance) fill() {
	in.tank = tank{slice: leastSlice}
	if in.core.fuel != nil {
		in.core.fuel.Set(uint64(in.grant(0)))
		in.core.depth.Set(uint64(in.deepen(0)))
	}
}

// drain reads the counters after a call.
func (in *Instance) drain() {
	if in.core.fuel != nil {
		in.tank.rest = int64(in.core.fuel.Get())
	}
	in.report.Fuel = uint64(max(0, in.tank.used(in.tank.rest)))
}

// grant makes what is left a slice, or less if the limit is near.
func (in *Instance) grant(left int64) int64 {
	more := min(in.tank.slice-left, in.fuel-in.tank.used(left))
	in.tank.granted += more
	return left + more
}

// deepen adds a piece of stack to what is left, or more if it is less than nothing.
func (in *Instance) deepen(left int64) int64 {
	t, most := &in.tank, in.image.limits.StackBytes
	for first := true; (first || left < 0) && t.stack < most; first = false {
		piece := min(stackPiece, most-t.stack)
		t.stack += piece
		left += piece
	}
	return left
}

// deeper gives a guest that has used up its piece of stack another one, or ends it.
func (in *Instance) deeper(left int64) {
	most := in.image.limits.StackBytes
	if in.core.depth != nil { // not in a start function
		left = in.deepen(left)
		in.core.depth.Set(uint64(left))
	}
	// It takes twice what is needed, and copies that next time.
	if size, ok := stackOf(in.core.functions[in.export]); left < 0 || ok && size > 2*most+overStack {
		in.fail(FaultStack, fmt.Sprintf("its calls nest too deep: more than %s of stack", bytesText(most)), nil)
	}
}

// refuel is what a metered guest calls when it has used up its slice of fuel, or
// its stack, and when its memory has grown. It ends the guest, or gives it another
// slice.
func refuel(ctx context.Context, _ api.Module, stack []uint64) {
	in := ctx.Value(instanceKey{}).(*Instance)
	left, depth := int64(stack[0]), int64(stack[1])
	if depth < 0 {
		in.deeper(depth)
	}
	ran := in.checkpoint(left)
	in.tank.measure(ran, in.core.linear.size)
	if in.tank.yields(ran) {
		in.watch.pause() // while a thousand others have their turns, this one does not run
		in.giveWay()
		in.watch.resume()
	}
	stack[0] = uint64(in.grant(left))
}

// charge makes an import's work count, and looks at the limits from time to time.
func (in *Instance) charge(fuel int64) {
	in.tank.imports += fuel
	if in.tank.since += fuel; in.tank.since < leastSlice {
		return
	}
	in.tank.since = 0
	left := int64(0)
	if in.core.fuel != nil {
		left = int64(in.core.fuel.Get())
	}
	in.checkpoint(left)
}

// checkpoint ends the guest if something wants it to end, and otherwise tells
// how long it has run. It runs on the guest's goroutine only.
func (in *Instance) checkpoint(left int64) time.Duration {
	limits := &in.image.limits
	ran := in.watch.ran()
	switch {
	case in.hostCtx.Err() != nil:
		in.ending = context.Cause(in.hostCtx)
		panic(unwind{})
	case ran > limits.HookTime:
		in.report.TimedOut = true
		in.fail(FaultTimeout, fmt.Sprintf("ran longer than %v", limits.HookTime), nil)
	case in.tank.used(left) > in.fuel:
		in.fail(FaultFuel, fmt.Sprintf("used more than its %d fuel", in.fuel), nil)
	}
	return ran
}
