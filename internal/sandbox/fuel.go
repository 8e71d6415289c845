package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero/api"
)

const (
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

	slicing
}

// used is what the call has used, given what the guest has left.
func (t *tank) used(left int64) int64 { return t.granted - left + t.imports }

// fill prepares the counters for a call.
func (in *Instance) fill() {
	in.tank = tank{slicing: in.image.code.slices(in.core.linear.size)}
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
	in.heldUp(ran)
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
