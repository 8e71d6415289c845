package sandbox

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// Guest is what an [Import] sees of the instance that called it. It is valid
// until the import returns, and on the goroutine that it was called on.
type Guest struct{ in *Instance }

// Value is what InstanceConfig.Value was; nil while the instance is being made.
func (g *Guest) Value() any { return g.in.config.Value }

// Export is the name of the export that is being called; empty while the
// module's start function runs.
func (g *Guest) Export() string { return g.in.export }

// Read returns a copy of length bytes of the guest's memory. If they do not lie
// in it, Read does not return: the call ends with a Fault of kind FaultBounds.
// It may be as long as the memory is large: check the length first. Each 16
// bytes cost one fuel, and the call ends there if that was the last.
func (g *Guest) Read(ptr, length uint32) []byte { return g.ReadInto(nil, ptr, length) }

// ReadInto is Read into the room of b, or a new one where that is too small.
func (g *Guest) ReadInto(b []byte, ptr, length uint32) []byte {
	from := g.view(ptr, length)
	if len(from) > cap(b) {
		return clonePieces(from)
	}
	copyPieces(b[:len(from)], from)
	return b[:len(from)]
}

// Write copies b to the guest's memory. If it does not fit there, Write does not
// return: the call ends with a Fault of kind FaultBounds. It costs what Read does.
func (g *Guest) Write(ptr uint32, b []byte) {
	copyPieces(g.view(ptr, uint32(min(len(b), maxMemoryBytes-1))), b)
}

// MemorySize is the present size of the guest's memory in bytes.
func (g *Guest) MemorySize() uint32 { return g.in.core.memory.Size() }

// Charge makes work that an import does count as if it copied so many bytes, and
// ends the call if that was the last of the fuel.
func (g *Guest) Charge(bytes int) { g.in.charge(int64(bytes) / fuelBytes) }

// ChargeFuel adds to the fuel that the call has used, and ends the call if that was the last of it.
func (g *Guest) ChargeFuel(fuel int64) { g.in.charge(fuel) }

// Abort ends the call from inside an import: all frames of the guest are
// discarded, and [Instance.Call] returns err as it is. It does not return. An
// import whose call of another guest failed hands the error outward with it.
func (g *Guest) Abort(err error) {
	if err == nil {
		g.in.fail(FaultInternal, "aborted without an error", nil)
	}
	g.in.ending = err
	panic(unwind{})
}

// fail ends the call from inside an import with a fault of its own.
func (in *Instance) fail(kind FaultKind, message string, cause error) {
	fault := in.fault(kind, message)
	fault.Cause = cause
	in.ending, in.own = fault, fault
	panic(unwind{})
}

// view is the part of the guest's memory itself. It must not be kept.
func (g *Guest) view(ptr, length uint32) []byte {
	b := g.in.bounds(ptr, length)
	g.in.charge(int64(length) / fuelBytes)
	return b
}

func (in *Instance) bounds(ptr, length uint32) []byte {
	b, ok := in.core.memory.Read(ptr, length)
	if !ok {
		in.fail(FaultBounds, fmt.Sprintf("%s: %d bytes at 0x%x do not lie in the memory of %d bytes",
			in.inside, length, ptr, in.core.memory.Size()), nil)
	}
	return b
}

// unwind is the panic with which Abort passes through wazero, which turns it
// into an error and discards the frames.
type unwind struct{}

func (unwind) Error() string { return "aborted by the host" }

// instanceKey is the context key of the instance whose call it is.
type instanceKey struct{}

// hostFunction makes an import a function for wazero. The instance is found by
// the context, since host modules are shared by all instances of a module.
func hostFunction(imp *Import) api.GoModuleFunc {
	inside := imp.Module + "." + imp.Name
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		in := ctx.Value(instanceKey{}).(*Instance)
		if in.core.memory == nil { // in a start function it is not known yet
			in.core.memory = mod.Memory()
		}
		in.inside = inside
		in.report.HostCalls++
		defer in.recoverImport()
		in.charge(importFuel)
		if imp.Waits {
			in.endTurn()
			in.watch.pause()
			defer in.waited()
		}
		imp.Func(in.hostCtx, &in.guest, stack)
		if !imp.Quick { // then charge does, from time to time
			in.afterImport(in.look())
		}
	}
}

// look looks at the limits after an import: what it cost the host is the
// guest's, and there may be no other place where a guest that does nothing
// else is stopped.
func (in *Instance) look() (ran time.Duration) {
	left := int64(0)
	if in.core.fuel != nil {
		left = int64(in.core.fuel.Get())
	}
	return in.checkpoint(left)
}

// Wait calls fn, whose time does not count as the guest's: it waits for a
// model, a tool, another guest, a slow reader. What the host does for the
// guest before and after belongs outside of fn. The guest's clock stands still;
// see Tick.
func (g *Guest) Wait(fn func()) {
	if w := &g.in.watch; w.running { // it may be waited already, or be over
		g.in.endTurn()
		w.pause()
		defer w.resume()
	}
	fn()
}

// Used tells what the call has used so far of Limits.HookTime and Limits.Fuel.
func (g *Guest) Used() (ran time.Duration, fuel int64) {
	left := int64(0)
	if g.in.core.fuel != nil {
		left = int64(g.in.core.fuel.Get())
	}
	return g.in.watch.ran(), g.in.tank.used(left)
}

// Look ends the call, and does not return, if that has to end: its time or fuel is
// used up, or nobody waits for it. An import that works for long looks now and then.
func (g *Guest) Look() { g.in.look() }

// Tick lets the guest's clock show what InstanceConfig.Clock says now.
func (g *Guest) Tick() { g.in.now = max(g.in.now, g.in.config.Clock()) }

// recoverImport makes a panic of an import the end of the call. Abort's own
// passes.
func (in *Instance) recoverImport() {
	switch r := recover().(type) {
	case nil:
	case unwind:
		panic(r)
	default:
		in.image.sandbox.log.Error("a host function panicked", "import", in.inside, "module", in.image.name,
			"digest", in.image.code.digest, "panic", r, "stack", string(debug.Stack()))
		cause, _ := r.(error)
		in.fail(FaultInternal, cut(fmt.Sprintf("the host function %s panicked: %v", in.inside, r), 512), cause)
	}
}
