package sandbox

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/sandbox/image"
	"github.com/agent-runner/agent-runner/internal/sandbox/text"
)

// Guest is the instance that called an [Import]. It is valid until the import returns, and
// only on the goroutine of the import.
type Guest struct{ in *Instance }

// Value returns InstanceConfig.Value, or nil while the instance is being made.
func (g *Guest) Value() any { return g.in.value }

// Export returns the name of the export that is being called. It is empty in the module's
// start function.
func (g *Guest) Export() string { return g.in.export }

// Read returns a copy of length bytes of the guest's memory. For a range outside of the memory,
// Read does not return: the call ends with a [FaultError] of kind FaultBounds. The copy may be as
// large as the memory, so check the length first. Each 16 bytes cost 1 fuel. Like Charge, Read
// checks the limits from time to time.
func (g *Guest) Read(ptr, length uint32) []byte { return g.ReadInto(nil, ptr, length) }

// ReadInto is like Read, but copies into b, or into a new slice if the capacity of b is too small.
func (g *Guest) ReadInto(b []byte, ptr, length uint32) []byte {
	from := g.view(ptr, length)
	if len(from) > cap(b) {
		return image.Clone(from)
	}
	image.Copy(b[:len(from)], from)
	return b[:len(from)]
}

// Write copies b to the guest's memory. If the range is not within the memory, Write does
// not return: the call ends with a [FaultError] of kind FaultBounds. It costs the same fuel as
// Read.
func (g *Guest) Write(ptr uint32, b []byte) {
	image.Copy(g.view(ptr, uint32(min(len(b), maxMemoryBytes-1))), b)
}

// Explain sets the line that explains a fault of the running call, as a printed line does. Explain
// does not change line, and escapes and shortens a copy.
func (g *Guest) Explain(line []byte) { g.in.wasi.Explain(line) }

// MemorySize returns the current size of the guest's memory in bytes.
func (g *Guest) MemorySize() uint32 { return g.in.core.memory.Size() }

// Charge charges the work of an import like a copy of the given number of bytes. From time to time
// it checks the limits, and ends the call if its time or fuel is used up or it was canceled.
func (g *Guest) Charge(bytes int) { g.in.charge(int64(bytes) / fuelBytes) }

// ChargeFuel charges fuel. Like Charge, it ends the call only if a limit is reached or the call was
// canceled.
func (g *Guest) ChargeFuel(fuel int64) { g.in.charge(fuel) }

// Abort ends the call from inside an import and does not return. All frames of the guest are
// discarded, and [Instance.Call] returns err unchanged. An import uses it to pass on the
// error of a call of another guest.
func (g *Guest) Abort(err error) {
	if err == nil {
		g.in.fail(FaultInternal, "aborted without an error", nil)
	}
	g.in.aborted = err
	panic(unwind{})
}

// fail ends the call from inside an import with a fault of this guest.
func (in *Instance) fail(kind FaultKind, message string, cause error) {
	fault := in.fault(kind, message)
	fault.Cause = cause
	in.aborted, in.ownFault = fault, fault
	panic(unwind{})
}

// view returns the length bytes of the guest's memory at ptr without copying them, and charges for
// them. The result must not be kept.
func (g *Guest) view(ptr, length uint32) []byte {
	b := g.in.bounds(ptr, length)
	g.in.charge(int64(length) / fuelBytes)
	return b
}

// bounds is like view, but charges nothing.
func (in *Instance) bounds(ptr, length uint32) []byte {
	b, ok := in.core.memory.Read(ptr, length)
	if !ok {
		in.fail(FaultBounds, fmt.Sprintf("%s: %d bytes at 0x%x do not lie in the memory of %d bytes",
			in.inside, length, ptr, in.core.memory.Size()), nil)
	}
	return b
}

// unwind is the panic with which an import ends a call. wazero turns it into an error and
// discards the guest's frames.
type unwind struct{}

func (unwind) Error() string { return "aborted by the host" }

// instanceKey is the context key of the instance that is called.
type instanceKey struct{}

// hostFunction returns the function that wazero calls for an import. It finds the instance in
// the context, because all instances of a module share the host modules.
func hostFunction(imp *Import) api.GoModuleFunc {
	inside := imp.Module + "." + imp.Name
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		in := ctx.Value(instanceKey{}).(*Instance)
		if in.core.memory == nil { // not set yet in a start function
			in.core.memory = mod.Memory()
		}
		in.inside = inside
		in.report.HostCalls++
		defer in.recoverImport()
		in.charge(importFuel)
		if imp.Waits {
			in.releaseCPU()
			in.watch.pause()
			defer in.waited()
		}
		imp.Func(in.hostCtx, &in.guest, stack)
		if !imp.Quick { // charge checks the limits of quick imports from time to time
			in.afterImport(in.checkLimits())
		}
	}
}

// checkLimits checks the limits during or after an import, whose cost counts as the guest's. It
// ends the guest, or returns the time that the guest has run. If a guest does little but call
// imports, this may be the only check.
func (in *Instance) checkLimits() (ran time.Duration) {
	left := int64(0)
	if in.core.fuel != nil {
		left = int64(in.core.fuel.Get())
	}
	return in.checkpoint(left)
}

// Wait calls fn, whose time does not count as the guest's, because it waits for a model, a
// tool, another guest or a slow reader. Work for the guest should be outside of fn. The
// guest's clock does not advance, see Tick.
func (g *Guest) Wait(fn func()) {
	if w := &g.in.watch; w.running { // not within another wait, or after the call
		g.in.releaseCPU()
		w.pause()
		defer w.resume()
	}
	fn()
}

// Used returns the time and the fuel that the call has used so far. Limits.HookTime and Limits.Fuel
// bound them.
func (g *Guest) Used() (ran time.Duration, fuel int64) {
	left := int64(0)
	if g.in.core.fuel != nil {
		left = int64(g.in.core.fuel.Get())
	}
	return g.in.watch.ran(), g.in.meter.used(left)
}

// CheckLimits ends the call, and does not return, if its time or fuel is used up or it was
// canceled. A long-running import calls it from time to time.
func (g *Guest) CheckLimits() { g.in.checkLimits() }

// Tick sets the guest's clock to the current time of InstanceConfig.Clock.
func (g *Guest) Tick() { g.in.wasi.Tick() }

// wasiGuest implements [wasi.Guest].
type wasiGuest Instance

func (g *wasiGuest) View(ptr, length uint32) []byte { return g.guest.view(ptr, length) }
func (g *wasiGuest) CheckBounds(ptr, length uint32) { (*Instance)(g).bounds(ptr, length) }
func (g *wasiGuest) Charge(fuel int64)              { (*Instance)(g).charge(fuel) }
func (g *wasiGuest) Wait(fn func())                 { g.guest.Wait(fn) }

func (g *wasiGuest) Exit(code uint32) {
	(*Instance)(g).fail(FaultExit, fmt.Sprintf("proc_exit(%d)", code), nil)
}

// recoverImport ends the call if an import panics. It passes on the panic of Abort.
func (in *Instance) recoverImport() {
	switch r := recover().(type) {
	case nil:
	case unwind:
		panic(r)
	default:
		in.image.sandbox.log.Error("a host function panicked", "import", in.inside, "module", in.image.name,
			"digest", in.image.code.digest, "panic", r, "stack", string(debug.Stack()))
		cause, _ := r.(error)
		in.fail(FaultInternal, text.Cut(fmt.Sprintf("the host function %s panicked: %v", in.inside, r), 512), cause)
	}
}
