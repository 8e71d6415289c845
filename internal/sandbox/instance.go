package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/sandbox/wasi"
)

// imageTime is the time of a guest's clock while its image is built, 2024-01-01T00:00:00Z in
// nanoseconds, so that images do not depend on when they are built.
const imageTime = 1_704_067_200_000_000_000

// InstanceConfig configures one instance.
type InstanceConfig struct {
	// Value is any value of the caller. [Guest.Value] returns it to imports.
	Value any

	// Stdout and Stderr receive each line that the guest prints, without its line end, with
	// control characters and invalid UTF-8 escaped. They are called during a call, on its
	// goroutine, and may keep the line. Their time does not count as the guest's. If one is
	// nil, its output is dropped.
	Stdout, Stderr func(line []byte)

	// LineFuel is the fuel for a printed line, and ByteFuel for each of its bytes. Output
	// beyond the limits is dropped and free.
	LineFuel, ByteFuel int64

	// Seed determines the guest's random bytes. If Seed is nil, the bytes are from the system's
	// random source.
	Seed []byte

	// Clock returns the guest's time in nanoseconds since 1970. It is called when a call
	// begins and after an import that waits; the guest's clock does not advance in
	// between. The guest sees whole milliseconds. If Clock is nil, the system's clock is
	// used.
	Clock func() int64
}

// Report describes the last call.
type Report struct {
	Fuel      uint64        // see Limits.Fuel; the same on every machine
	Time      time.Duration // the guest's own running time
	Waited    time.Duration // the time in imports that wait, and waiting for a processor
	HostCalls int           // calls of imports, including WASI
	Memory    int64         // size of the linear memory at the end, in bytes
	Dropped   int           // bytes that the guest printed beyond the limits
	TimedOut  bool          // whether the call exceeded Limits.HookTime and was ended, after it had used Fuel
}

// Instance is a running module. Call, Close and Image are safe for concurrent use, but an instance
// serves one call at a time.
type Instance struct {
	image   *Image
	ref     *codeRef // reference to the code of image
	core    *core
	guest   Guest
	context wazeroContext // context for calls of wazero

	mu      sync.Mutex
	busy    bool         // guarded by mu
	dead    bool         // guarded by mu
	closed  bool         // guarded by mu
	calling *callContext // context of the running call; guarded by mu

	// The following fields belong to the goroutine of the running call.
	value any // value from the configuration
	wasi  wasi.Process

	export     string       // the export that is being called
	stack      []uint64     // the export's parameters, and then its results
	inside     string       // the import that was called last
	depth      int          // the number of guests that wait for this call
	hostCtx    *callContext // the context that imports get
	tenant     *Tenant      // the call's tenant; never nil
	cpuRelease func()       // releases the processor; nil if none was acquired
	watch      stopwatch
	meter      meter
	fuel       int64       // maximum fuel of a call
	aborted    error       // error with which an import ended the call; nil if none did
	ownFault   *FaultError // aborted, if it is a fault of this guest itself; else nil
	report     Report
	profiled   []profileFrame // the functions that run, if there is a profile
}

// newInstance returns an instance without a core.
func (im *Image) newInstance() (*Instance, error) {
	ref, err := im.retain()
	if err != nil {
		return nil, err
	}
	in := &Instance{image: im, ref: ref}
	in.guest.in = in
	in.wasi.Init((*wasiGuest)(in))
	in.context = wazeroContext{context.Background(), in}
	if !im.sandbox.enter(in) {
		ref.Release()
		return nil, ErrClosed
	}
	return in, nil
}

// start instantiates the core, which runs the module's start function.
func (in *Instance) start(ctx context.Context) error {
	return in.run(ctx, "", nil, 0)
}

// configure applies cfg and the image's limits to the instance. The clock defaults to the system's.
func (in *Instance) configure(cfg InstanceConfig) {
	if cfg.Clock == nil {
		cfg.Clock = func() int64 { return time.Now().UnixNano() }
	}
	limits := &in.image.limits
	in.value = cfg.Value
	in.wasi.Configure(wasi.Config{
		Stdout: cfg.Stdout, Stderr: cfg.Stderr, LineFuel: cfg.LineFuel, ByteFuel: cfg.ByteFuel,
		LogBytes: limits.LogBytes, LogLineBytes: limits.LogLineBytes, Seed: cfg.Seed, Clock: cfg.Clock,
	})
	in.fuel = limits.Fuel
}

// Reseed makes seed determine the guest's random bytes from now on. seed is called when the guest
// first requests random bytes, which happens in few calls. Reseed must not be called during a call.
func (in *Instance) Reseed(seed func() []byte) { in.wasi.Reseed(seed) }

// LimitFuel bounds the fuel of each call from now on, within Limits.Fuel. It must not be
// called during a call.
func (in *Instance) LimitFuel(limit int64) { in.fuel = min(limit, in.image.limits.Fuel) }

// Report describes the last call. It must not be called during a call.
func (in *Instance) Report() Report { return in.report }

// Image returns the image that the instance was made from.
func (in *Instance) Image() *Image { return in.image }

// Call calls an exported function. The parameters and results are encoded as by wazero's
// api.Encode functions. The results are valid until the next call. The imports get a context
// with the values of ctx.
//
// The error is a [*FaultError] for a mistake of the guest, the error that Guest.Abort got, the
// cause of ctx, ErrBusy, ErrDead or ErrClosed. The instance is still usable if Call did not start
// guest code: because of ErrBusy, a fault of kind FaultNesting, a missing export, a wrong number of
// arguments, or a ctx that was already done. After other errors it is dead and should be closed.
func (in *Instance) Call(ctx context.Context, export string, args ...uint64) ([]uint64, error) {
	want, ok := in.image.code.Outline.FuncType(export)
	if !ok {
		return nil, fmt.Errorf("sandbox: %s exports no function %q", in.image.name, export)
	}
	if len(want.Params) != len(args) {
		return nil, fmt.Errorf("sandbox: %s takes %d parameters, not %d", export, len(want.Params), len(args))
	}
	if err := in.run(ctx, export, args, len(want.Results)); err != nil {
		return nil, err
	}
	return in.stack[:len(want.Results)], nil
}

// run runs guest code, an export or the start function if export is empty, within all limits.
func (in *Instance) run(ctx context.Context, export string, args []uint64, results int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	hostCtx := &callContext{Context: ctx, in: in}
	defer hostCtx.finish()
	if err := in.begin(hostCtx); err != nil {
		return err
	}
	defer in.end()

	depth := 0
	if below, ok := ctx.Value(instanceKey{}).(*Instance); ok {
		depth = below.depth + 1
	}
	if depth >= in.image.limits.Nesting {
		in.setDead(false)
		return in.fault(FaultNesting, fmt.Sprintf("guests call guests more than %d deep", in.image.limits.Nesting))
	}
	in.export, in.inside, in.depth, in.hostCtx, in.aborted, in.ownFault = export, "", depth, hostCtx, nil, nil
	in.tenant = tenantOf(ctx)
	in.core.linear.Refused, in.report = false, Report{}
	in.wasi.Begin()

	in.startMeter()
	in.watch = startWatch(in.image.code.slow.happened())
	err := in.enter(hostCtx, export, args, results)
	in.releaseCPU()
	in.watch.stop()
	in.stopMeter()
	in.image.sandbox.profile.finish(in)
	in.finishReport()
	if err = in.outcome(hostCtx, err); err != nil {
		return err
	}
	in.setDead(false)
	return nil
}

// enter calls an export, or instantiates the core if export is empty. It returns a panic in wazero
// itself as an error.
func (in *Instance) enter(ctx context.Context, export string, args []uint64, results int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicError{r}
		}
	}()
	if export == "" {
		return in.core.instantiate(ctx, nil, in.image)
	}
	in.stack = append(in.stack[:0], args...)
	for len(in.stack) < results {
		in.stack = append(in.stack, 0)
	}
	return in.core.function(export).CallWithStack(&in.context, in.stack)
}

// panicError is a panic of wazero itself, outside of imports, as an error.
type panicError struct{ value any }

func (e panicError) Error() string { return fmt.Sprint(e.value) }

// begin starts a call. It marks the instance as dead, and only a successful call removes the mark. An instance whose
// call ends in any other way therefore stays dead.
func (in *Instance) begin(c *callContext) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.closed:
		return ErrClosed
	case in.busy:
		return ErrBusy
	case in.dead:
		return ErrDead
	}
	in.busy, in.dead, in.calling = true, true, c
	return nil
}

func (in *Instance) setDead(dead bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dead = dead
}

// end ends a call, and frees the instance if it was closed during the call.
func (in *Instance) end() {
	in.mu.Lock()
	in.busy, in.calling = false, nil
	closed := in.closed
	if in.dead {
		in.core.functions = nil // the functions reference the guest's stack, which may be large
	}
	in.mu.Unlock()
	if closed {
		in.free()
	}
}

// Close closes the instance. A running call is interrupted and returns ErrClosed, and the
// memory is freed then. Closing twice has no effect.
func (in *Instance) Close() {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return
	}
	in.closed = true
	busy := in.busy
	if busy {
		in.calling.cancelable().cancel(ErrClosed)
	}
	in.mu.Unlock()
	if !busy {
		in.free()
	}
}

// free returns the core to the pool, or closes it.
func (in *Instance) free() {
	if in.core != nil && (in.dead || !in.image.pool.put(in.core)) {
		in.core.close()
	}
	in.core = nil
	in.ref.Release()
	in.image.sandbox.leave(in)
}

// outcome returns the error of the call, given the error of wazero. The host's reasons to end
// a call take precedence over the guest's mistakes.
func (in *Instance) outcome(ctx context.Context, err error) error {
	switch {
	case in.aborted != nil:
		if in.ownFault != nil && err != nil {
			_, in.ownFault.Stack, in.ownFault.functions = in.splitTrap(err)
		}
		return in.aborted
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return nil
	}
	if p := (panicError{}); errors.As(err, &p) {
		in.image.sandbox.log.Error("the WebAssembly runtime panicked", "module", in.image.name,
			"digest", in.image.code.digest, "panic", p.value)
		fault := in.fault(FaultInternal, "the WebAssembly runtime panicked: "+text.Cut(err.Error(), 512))
		fault.Cause = err
		return fault
	}
	trap, stack, functions := in.splitTrap(err)
	kind, message := FaultTrap, engine.DescribeTrap(trap)
	switch {
	case trap == engine.TrapStackOverflow:
		kind, message = FaultStack, "its calls are nested too deeply for the stack"
	case in.core.linear.Refused:
		kind = FaultMemory
		message += fmt.Sprintf(", after it was refused memory beyond %s", text.Bytes(in.image.limits.MemoryBytes))
	}
	fault := in.fault(kind, message)
	fault.Stack, fault.functions = stack, functions
	return fault
}

// fault returns a fault of the running call.
func (in *Instance) fault(kind FaultKind, message string) *FaultError {
	limit, value := in.image.limits.limitOf(kind)
	return &FaultError{
		Kind: kind, Message: message, Limit: limit, Value: value,
		Module: in.image.name, Digest: in.image.code.digest, Export: in.export,
		Output: in.wasi.Output(), reason: in.wasi.Reason(),
	}
}

// finishReport ends the output and completes the report.
func (in *Instance) finishReport() {
	in.wasi.End()
	in.report.Dropped = in.wasi.Dropped()
	in.report.Time, in.report.Waited = in.watch.used, in.watch.waited
	in.report.Memory = int64(in.core.linear.Size)
}

// waited sets the guest's clock to the current time and resumes the stopwatch, after an import that
// waits.
func (in *Instance) waited() {
	in.wasi.Tick()
	in.watch.resume()
}
