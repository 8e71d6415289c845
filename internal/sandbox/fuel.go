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

	// stackStep is the number of bytes of stack that a guest is granted at a time. A stack grows by
	// being copied, without interruption, to one twice as large: a copy of 64 MB takes 50 ms. Code
	// that uses more stack than estimated is detected between two grants, before it has used much.
	// stackExcess is the number of bytes that one frame may use beyond the estimate.
	stackStep   = 256 << 10
	stackExcess = 1 << 20
)

// A meter counts the fuel and the stack that one call is granted and uses, and sizes its slices.
type meter struct {
	granted   int64 // fuel granted to the guest
	imports   int64 // fuel used by imports
	unchecked int64 // fuel used by imports since the last check of the limits
	rest      int64 // the part of granted that is unused at the end of the call

	stack int64 // estimated bytes of stack granted to the guest

	slicing
}

// used returns the fuel that the call has used. left is the part of the granted fuel that remains.
func (m *meter) used(left int64) int64 { return m.granted - left + m.imports }

// startMeter resets the meter, and grants the first slice of fuel and the first part of the stack,
// at the beginning of a call.
func (in *Instance) startMeter() {
	in.meter = meter{slicing: in.image.code.slicing(in.core.linear.Size)}
	if in.core.fuel != nil {
		in.core.fuel.Set(uint64(in.grant(0)))
		in.core.depth.Set(uint64(in.deepen(0)))
	}
}

// stopMeter reads the guest's remaining fuel at the end of a call, and reports the fuel that the
// call used.
func (in *Instance) stopMeter() {
	if in.core.fuel != nil {
		in.meter.rest = int64(in.core.fuel.Get())
	}
	in.report.Fuel = uint64(max(0, in.meter.used(in.meter.rest)))
}

// grant tops up the guest's remaining fuel to one slice, or to less if the limit is near. left is
// the remaining fuel before that; grant returns the remaining fuel afterwards.
func (in *Instance) grant(left int64) int64 {
	more := min(in.meter.slice-left, in.fuel-in.meter.used(left))
	in.meter.granted += more
	return left + more
}

// deepen grants the guest stackStep bytes of stack, and again while the remaining stack is
// negative, up to the limit. left is the remaining stack in bytes before that; deepen returns it
// with the granted bytes added.
func (in *Instance) deepen(left int64) int64 {
	m, limit := &in.meter, in.image.limits.StackBytes
	for first := true; (first || left < 0) && m.stack < limit; first = false {
		step := min(stackStep, limit-m.stack)
		m.stack += step
		left += step
	}
	return left
}

// growStack grants more stack to a guest that has used up the stack granted so far, or ends the guest if it has
// reached the limit.
func (in *Instance) growStack(left int64) {
	limit := in.image.limits.StackBytes
	if in.core.depth != nil { // not in a start function
		left = in.deepen(left)
		in.core.depth.Set(uint64(left))
	}
	// wazero doubles a stack that is too small, so that its size can be up to twice what the guest uses.
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
	in.meter.adapt(ran, in.core.linear.Size)
	if in.meter.shouldYield(ran) {
		in.watch.pause() // the time in which others use the processor does not count
		in.yield()
		in.watch.resume()
	}
	stack[0] = uint64(in.grant(left))
}

// charge charges the work of an import, and checks the limits from time to time.
func (in *Instance) charge(fuel int64) {
	in.meter.imports += fuel
	if in.meter.unchecked += fuel; in.meter.unchecked < minSlice {
		return
	}
	in.meter.unchecked = 0
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
		in.aborted = context.Cause(in.hostCtx)
		panic(unwind{})
	case ran > limits.HookTime:
		in.report.TimedOut = true
		in.fail(FaultTimeout, fmt.Sprintf("ran longer than %v", limits.HookTime), nil)
	case in.meter.used(left) > in.fuel:
		in.fail(FaultFuel, fmt.Sprintf("used more than its %d fuel", in.fuel), nil)
	}
	return ran
}
