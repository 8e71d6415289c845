package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/sandbox/text"
)

const (
	// importFuel is the fuel for a call of an import. fuelBytes is the number of bytes read
	// or written for 1 fuel. Both correspond to the time that they take.
	importFuel = 100
	fuelBytes  = 16

	// startStack is the stack in bytes of a start function, which runs before the limit of
	// its image can be set.
	startStack = 256 << 10

	// stackPiece is the part of its stack in bytes that a guest gets at a time. A stack grows
	// by being copied, without interruption, to one twice as large: a copy of 64 MB takes
	// 50 ms. Code that uses more than the estimate is noticed between two pieces, before it
	// has used much. stackExcess is what one frame may use beyond the estimate.
	stackPiece  = 256 << 10
	stackExcess = 1 << 20
)

// tank counts the fuel and the stack of one call.
type tank struct {
	granted   int64 // fuel granted to the guest
	imports   int64 // fuel used by imports
	unchecked int64 // fuel used by imports since the limits were checked
	rest      int64 // the unused part of granted, at the end

	stack int64 // bytes of stack granted, as estimated

	slicing
}

// used returns the fuel that the call has used. left is the part of the granted fuel that remains.
func (t *tank) used(left int64) int64 { return t.granted - left + t.imports }

// fill sets the counters for a call.
func (in *Instance) fill() {
	in.tank = tank{slicing: in.image.code.slicing(in.core.linear.Size)}
	if in.core.fuel != nil {
		in.core.fuel.Set(uint64(in.grant(0)))
		in.core.depth.Set(uint64(in.deepen(0)))
	}
}

// drain reads the guest's remaining fuel after a call, and records the fuel that the call used.
func (in *Instance) drain() {
	if in.core.fuel != nil {
		in.tank.rest = int64(in.core.fuel.Get())
	}
	in.report.Fuel = uint64(max(0, in.tank.used(in.tank.rest)))
}

// grant adds fuel to left, the guest's remaining fuel, up to a slice, or to less if the limit is
// near. It returns the new remaining fuel.
func (in *Instance) grant(left int64) int64 {
	more := min(in.tank.slice-left, in.fuel-in.tank.used(left))
	in.tank.granted += more
	return left + more
}

// deepen adds a piece of stack to left, the guest's remaining stack in bytes, and further pieces
// while left is negative, up to the limit. It returns the new remaining stack.
func (in *Instance) deepen(left int64) int64 {
	t, limit := &in.tank, in.image.limits.StackBytes
	for first := true; (first || left < 0) && t.stack < limit; first = false {
		piece := min(stackPiece, limit-t.stack)
		t.stack += piece
		left += piece
	}
	return left
}

// growStack grants more stack to a guest that has used up its stack so far, or ends the guest if it
// has reached the limit.
func (in *Instance) growStack(left int64) {
	limit := in.image.limits.StackBytes
	if in.core.depth != nil { // not in a start function
		left = in.deepen(left)
		in.core.depth.Set(uint64(left))
	}
	// wazero doubles a stack that is too small.
	if size, ok := engine.StackBytes(in.core.functions[in.export]); left < 0 || ok && size > 2*limit+stackExcess {
		in.fail(FaultStack,
			fmt.Sprintf("its calls are nested too deeply: they use more than %s of stack", text.Bytes(limit)), nil)
	}
}

// refuel is the host function that a metered guest calls when its slice of fuel or its stack
// is used up, and when its memory has grown. It grants another slice, or ends the guest.
func refuel(ctx context.Context, _ api.Module, stack []uint64) {
	in := ctx.Value(instanceKey{}).(*Instance)
	left, depth := int64(stack[0]), int64(stack[1])
	if depth < 0 {
		in.growStack(depth)
	}
	ran := in.checkpoint(left)
	in.checkSlice(ran)
	in.tank.adapt(ran, in.core.linear.Size)
	if in.tank.shouldYield(ran) {
		in.watch.pause() // while others use the processor
		in.yield()
		in.watch.resume()
	}
	stack[0] = uint64(in.grant(left))
}

// charge charges the work of an import, and checks the limits from time to time.
func (in *Instance) charge(fuel int64) {
	in.tank.imports += fuel
	if in.tank.unchecked += fuel; in.tank.unchecked < minSlice {
		return
	}
	in.tank.unchecked = 0
	left := int64(0)
	if in.core.fuel != nil {
		left = int64(in.core.fuel.Get())
	}
	in.checkpoint(left)
}

// checkpoint ends the guest if a limit was exceeded or the call was canceled. Otherwise it
// returns the time that the guest has run. It runs on the guest's goroutine.
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
