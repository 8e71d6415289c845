package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// initialize is the export that a reactor's toolchain sets the module up with.
const initialize = "_initialize"

// imageTime is what a guest's clock shows while its image is built, so that
// images do not depend on when that was: 2024-01-01T00:00:00Z.
const imageTime = 1_704_067_200_000_000_000

// InstanceConfig is what one instance is given.
type InstanceConfig struct {
	// Value is the caller's own; imports reach it with Guest.Value.
	Value any

	// Stdout and Stderr are called for each line that the guest prints, without
	// its line end, control characters and invalid UTF-8 escaped. They are called
	// during a call, on its goroutine, and may keep the line. Their time is not the
	// guest's. Nil: dropped.
	Stdout, Stderr func(line []byte)

	// LineFuel is what printing a line costs in fuel, and ByteFuel what each byte of it costs. Output
	// beyond the limits, which is dropped, is free.
	LineFuel, ByteFuel int64

	// Seed determines the guest's random bytes. Nil: taken from the system.
	Seed []byte

	// Clock is the guest's time in nanoseconds since 1970. It is asked when a
	// call begins and after an import that waits, and stands still between; the
	// guest sees whole milliseconds. Nil: the system's clock.
	Clock func() int64
}

// Report tells what a call took.
type Report struct {
	Fuel      uint64        // see Limits.Fuel; the same on every machine
	Time      time.Duration // the guest's own running time
	Waited    time.Duration // time spent in imports that wait, and waiting for a processor
	HostCalls int           // calls of imports, WASI's included
	Memory    int64         // linear memory at the end, in bytes
	Dropped   int           // bytes that it printed beyond the limits
	TimedOut  bool          // it was ended for Limits.HookTime, at Fuel
}

// Instance is a running module. Its methods are safe for concurrent use, but it
// serves one call at a time.
type Instance struct {
	image *Image
	core  *core
	guest Guest
	inner inContext // what wazero is called under

	mu      sync.Mutex
	busy    bool         // guarded by mu
	dead    bool         // guarded by mu
	closed  bool         // guarded by mu
	calling *callContext // of the call that runs; guarded by mu

	// The rest belongs to the goroutine of the call that runs.
	config  InstanceConfig
	stdout  lines
	stderr  lines
	recent  [][]byte // the last lines of both
	words   []byte   // what it printed in this call that tells most
	gaveUp  bool     // words say that its runtime gave up
	printed int      // bytes printed in this call
	random  *mathrand.ChaCha8
	reseed  func() []byte // determines it; nil: the configuration does
	now     int64         // what the guest's clock shows
	slept   int64         // by how much sleeping moved it, in nanoseconds

	export   string       // that is being called
	stack    []uint64     // its parameters, and then its results
	inside   string       // the import that was called last
	depth    int          // how many guests wait below this call
	hostCtx  *callContext // for imports
	sharer   *Sharer      // whose call it is; may be nil
	turnOver func()       // ends its turn; nil: it has none
	watch    stopwatch
	tank     tank
	fuel     int64  // the most that a call may use
	ending   error  // why an import ended the call
	own      *Fault // the same, if it is this guest's fault
	report   Report
	profiled []profileFrame // the functions that run, if there is a profile
}

// newInstance makes an instance that has no core yet.
func (im *Image) newInstance() (*Instance, error) {
	if err := im.retain(); err != nil {
		return nil, err
	}
	in := &Instance{image: im}
	in.guest.in = in
	in.inner = inContext{context.Background(), in}
	if !im.sandbox.enter(in) {
		im.sandbox.release(im.code)
		return nil, ErrClosed
	}
	return in, nil
}

// start makes the core from the module, whose start function runs.
func (in *Instance) start(ctx context.Context) error {
	return in.run(ctx, "", nil, 0)
}

// configure makes cfg the configuration from now on.
func (in *Instance) configure(cfg InstanceConfig) {
	if cfg.Clock == nil {
		cfg.Clock = func() int64 { return time.Now().UnixNano() }
	}
	in.config = cfg
	in.stdout = lines{in: in, sink: cfg.Stdout}
	in.stderr = lines{in: in, sink: cfg.Stderr}
	in.recent, in.random, in.reseed, in.now, in.slept = nil, nil, nil, 0, 0
	in.fuel = in.image.limits.Fuel
}

// Reseed determines the guest's random bytes from now on. seed is called once the guest
// asks for some: few calls do. Reseed must not be called during a call.
func (in *Instance) Reseed(seed func() []byte) { in.reseed, in.random = seed, nil }

// LimitFuel bounds the fuel of each call from now on, within Limits.Fuel. It must
// not be called during a call.
func (in *Instance) LimitFuel(most int64) { in.fuel = min(most, in.image.limits.Fuel) }

// Report tells what the last call took. It must not be called during a call.
func (in *Instance) Report() Report { return in.report }

// Image is what the instance was made from.
func (in *Instance) Image() *Image { return in.image }

// Call calls an exported function. The parameters and results are encoded as
// wazero's api.Encode functions do.
//
// The error is a *Fault if the guest did wrong; what Guest.Abort was given; the
// cause of ctx if that ended; ErrBusy, ErrDead or ErrClosed. After any of these
// but ErrBusy, and after a fault of kind FaultNesting, the instance is dead and
// should be closed. The context reaches the imports. The results are there until the
// next call.
func (in *Instance) Call(ctx context.Context, export string, args ...uint64) ([]uint64, error) {
	want, ok := in.image.code.shape.funcType(export)
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

// run lets guest code run, an export or for "" the start function, and sees to all that
// bounds it.
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
	in.export, in.inside, in.depth, in.hostCtx, in.ending, in.own = export, "", depth, hostCtx, nil, nil
	in.sharer = sharerOf(ctx)
	in.core.linear.refused, in.printed, in.report = false, 0, Report{}
	in.words, in.gaveUp = nil, false
	in.now = max(in.now, in.config.Clock())

	in.fill()
	in.watch = startWatch(in.image.code.suspect.lately())
	err := in.enter(hostCtx, export, args, results)
	in.endTurn()
	in.watch.stop()
	in.drain()
	in.image.sandbox.profile.finish(in)
	in.finishReport()
	if err = in.outcome(hostCtx, err); err != nil {
		return err
	}
	in.setDead(false)
	return nil
}

// enter is where guest code runs. A panic in wazero itself is an error.
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
	return in.core.function(export).CallWithStack(&in.inner, in.stack)
}

// panicError is a panic that did not come from an import.
type panicError struct{ value any }

func (e panicError) Error() string { return fmt.Sprint(e.value) }

// begin takes the instance for one call. It counts as dead until the call ended
// well, so that whatever cuts the call short leaves it dead.
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

// end gives the instance free again, and frees it if it was closed meanwhile.
func (in *Instance) end() {
	in.mu.Lock()
	in.busy, in.calling = false, nil
	closed := in.closed
	if in.dead {
		in.core.functions = nil // they hold the guest's stack, which may be large
	}
	in.mu.Unlock()
	if closed {
		in.free()
	}
}

// Close ends the instance. A call that is running is interrupted, returns
// ErrClosed, and the memory is freed then. Closing twice does nothing.
func (in *Instance) Close() {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return
	}
	in.closed = true
	busy := in.busy
	if busy {
		in.calling.needed().end(ErrClosed)
	}
	in.mu.Unlock()
	if !busy {
		in.free()
	}
}

func (in *Instance) free() {
	if in.core != nil && (in.dead || !in.image.pool.put(in.core)) {
		in.core.free()
	}
	in.core = nil
	in.image.sandbox.release(in.image.code)
	in.image.sandbox.leave(in)
}

// outcome says how the call ended, given what wazero returned. What the host
// wanted comes before what the guest did.
func (in *Instance) outcome(ctx context.Context, err error) error {
	switch {
	case in.ending != nil:
		if in.own != nil && err != nil {
			_, in.own.Stack = in.splitTrap(err)
		}
		return in.ending
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return nil
	}
	if p := (panicError{}); errors.As(err, &p) {
		in.image.sandbox.log.Error("the WebAssembly runtime panicked", "module", in.image.name, "digest", in.image.code.digest, "panic", p.value)
		fault := in.fault(FaultInternal, "the WebAssembly runtime panicked: "+cut(err.Error(), 512))
		fault.Cause = err
		return fault
	}
	trap, stack := in.splitTrap(err)
	kind, message := FaultTrap, trapText(trap)
	switch {
	case trap == "stack overflow": // of wazero's own stack, with a limit beyond that
		kind, message = FaultStack, "its calls nest too deep: more than there is stack"
	case in.core.linear.refused:
		kind = FaultMemory
		message += fmt.Sprintf(", after it was refused memory beyond %s", bytesText(in.image.limits.MemoryBytes))
	}
	fault := in.fault(kind, message)
	fault.Stack = stack
	return fault
}

func (in *Instance) fault(kind FaultKind, message string) *Fault {
	output := make([]string, len(in.recent))
	for i, line := range in.recent {
		output[i] = string(line)
	}
	limit, value := in.image.limits.limitOf(kind)
	return &Fault{
		Kind: kind, Message: message, Limit: limit, Value: value,
		Module: in.image.name, Digest: in.image.code.digest, Export: in.export,
		Output: output, words: string(in.words),
	}
}

func (in *Instance) finishReport() {
	in.stdout.flush()
	in.stderr.flush()
	in.reportDropped()
	in.report.Time, in.report.Waited = in.watch.used, in.watch.waited
	in.report.Memory = int64(in.core.linear.size)
}

// waited ends an import that waits: the guest's time runs again, and its clock
// shows what it is now.
func (in *Instance) waited() {
	in.now = max(in.now, in.config.Clock())
	in.watch.resume()
}

// draw writes random bytes, which the seed determines.
func (in *Instance) draw(b []byte) {
	if in.random == nil {
		seed := in.config.Seed
		if in.reseed != nil {
			seed = in.reseed()
		}
		if seed == nil {
			seed = make([]byte, 32)
			_, _ = rand.Read(seed) // never fails
		}
		in.random = mathrand.NewChaCha8(sha256.Sum256(seed))
	}
	_, _ = in.random.Read(b) // never fails
}
