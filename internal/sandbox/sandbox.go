// Package sandbox turns untrusted WebAssembly bytes into instances that are
// safe to call. It knows nothing of what guests are for: which functions they
// may import, and what those do, is the caller's [Surface].
//
// # From bytes to a closed instance
//
//  1. Verify (verify.go, and package wasm below). Nothing reaches wazero before
//     our own strict reading of the module has passed: its structure, caps on
//     all that can be counted, imports from the surface or WASI with exactly
//     their types, an exported memory that fits the limit, exports of the type
//     that the surface wants. What is wrong is told in a [RefusedError].
//  2. Meter (package wasm, fuel.go, slice.go). The module is rewritten so that it counts
//     its work and its stack, and calls the host each time a slice of fuel is
//     used up: only then does anything look at the limits of work and time, at
//     cancellation, and only then can Go's garbage collector stop the world.
//  3. Compile (compile.go, cache.go). Once for each digest, however many load the
//     same bytes at once; shared, counted, and closed with its last user. With
//     [Options.CacheDir], machine code is kept on disk, and checked before it is
//     used. With [Options.CompileChild] a process of its own does it, in bounded
//     time and memory (child.go, childmain.go), otherwise this one, with no limit
//     but those on the size of everything that a module has.
//  4. Snapshot (snapshot.go, memory_linux.go, difference.go). The first instance of an image
//     runs the module's start function and _initialize, and what
//     [Image.Prepare] was given; its memory and globals are then the state in
//     which all others begin. On Linux they map that memory privately, and a
//     reset copies back only the pages that were written to; elsewhere all of
//     it is copied. An image that was prepared from another one and differs from it in few
//     pages keeps only what differs. A module that changes its tables, or has a start function,
//     goes all the way each time; [Image.Reset] says so.
//  5. Pool (pool.go). An instance that is closed is reset and waits for the next
//     user of the same image, as long as there is memory for it, it did not
//     fault or grow, and is not old. Who starts work that needs instances reserves their memory
//     first, with [Sandbox.Reserve] (admission.go).
//  6. Call (instance.go, guest.go). One at a time; the guest's own time is
//     limited, its memory bounded, its pointers checked. What it does wrong is a
//     [Fault], after which the instance is dead.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// ErrClosed is what a closed sandbox, image or instance answers, and how a call
// ends in whose middle its instance or sandbox was closed.
var ErrClosed = errors.New("sandbox: closed")

// Options configure a [Sandbox]. They are copied by [New].
type Options struct {
	// CacheDir keeps compiled machine code between processes. It is made with
	// mode 0700 if it is missing, and refused if others own it or can write there. Entries
	// are found by the digest of the module as it is compiled; within that, by
	// the version of wazero, the operating system, and the processor's
	// architecture and features. One that is not exactly what was once written
	// is removed and made again. Empty: no cache on disk.
	CacheDir string

	// CacheBytes bounds the cache directory; what was not used for the longest
	// time is removed. Default 1 GiB.
	CacheBytes int64

	// CompileChild lets processes of their own compile, within these limits. Nil:
	// modules are compiled in this process.
	CompileChild *ChildOptions

	// Surface is what guests may import beside WASI, and how their exports must
	// be typed. The zero value allows WASI alone and any exports.
	Surface Surface

	// Structure caps what can be counted in a module; ModuleBytes and MemoryPages
	// in it do not matter, since Limits bounds them for each module. Nil:
	// wasm.DefaultLimits.
	Structure *wasm.Limits

	// MemoryBytes is what [Sandbox.Reserve] gives out. Default half of the
	// machine's memory, or of what the container may use; 2 GiB where that cannot
	// be known.
	MemoryBytes int64

	// ImageBytes bounds the memory that all images hold together: what instances
	// begin with, pages of zeros aside. Beyond it no image is made, nor for one
	// who has his share of it, see [Sharing]: that is an [*ImageRoomError]. Default a third of the machine's memory, or of what the
	// container may use.
	ImageBytes int64

	// IdleBytes bounds the memory that instances which nobody uses keep for
	// themselves, all together. Default 256 MiB, negative: none are kept.
	IdleBytes int64

	// IdleTime is how long an instance is kept that nobody uses. Default 30 s.
	IdleTime time.Duration

	// Profile collects which functions of guests use their fuel, for their authors:
	// calls take several times as long, and modules are compiled in this process each
	// time, without CacheDir and CompileChild. Nil: nothing is collected.
	Profile *Profile

	// Logger hears what an operator should look into: panics of host functions,
	// which are bugs of the host. Nil: nobody hears it.
	Logger *slog.Logger

	// interpret uses wazero's interpreter even where its compiler works, so that
	// tests can compare both.
	interpret bool

	// portable uses what works on every system, for the same reason.
	portable bool
}

// Sandbox loads modules. It is safe for concurrent use.
type Sandbox struct {
	surface   *surface
	structure wasm.Limits
	log       *slog.Logger
	config    wazero.RuntimeConfig
	disk      *diskCache // nil without one
	children  *children  // nil without them
	profile   *Profile   // nil without one
	compiles  bool       // wazero does, and does not interpret
	portable  bool

	running context.Context // ends when the sandbox is closed
	stop    context.CancelCauseFunc

	admission   admission
	idleBudget  budget
	idleTime    time.Duration
	imageBudget admission

	mu        sync.Mutex
	images    map[*Image]struct{}    // guarded by mu
	codes     map[string]*code       // by digest; guarded by mu
	live      map[*Instance]struct{} // guarded by mu
	compiling int                    // guarded by mu
	closed    bool                   // guarded by mu
	idle      *sync.Cond             // signals that live or compiling shrank; uses mu
}

// New returns a sandbox. It fails if the cache directory cannot be used, or if
// the surface contradicts itself. The caller must close it.
func New(_ context.Context, opts *Options) (*Sandbox, error) {
	if opts == nil {
		opts = &Options{}
	}
	s := &Sandbox{
		log: opts.Logger, portable: opts.portable, idleTime: opts.IdleTime, profile: opts.Profile,
		images: map[*Image]struct{}{}, codes: map[string]*code{}, live: map[*Instance]struct{}{},
	}
	s.admission.free = opts.MemoryBytes
	def(&s.admission.free, machineMemory()/2)
	s.admission.all = s.admission.free
	def(&s.idleTime, 30*time.Second)
	s.idleBudget.most = opts.IdleBytes
	def(&s.idleBudget.most, 256<<20)
	s.imageBudget.free = opts.ImageBytes
	def(&s.imageBudget.free, machineMemory()/3)
	s.imageBudget.all = s.imageBudget.free
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.idle = sync.NewCond(&s.mu)
	s.structure = wasm.DefaultLimits()
	if opts.Structure != nil {
		s.structure = *opts.Structure
	}
	s.structure.ModuleBytes, s.structure.MemoryPages = math.MaxInt, maxMemoryBytes/pageBytes
	var err error
	if s.surface, err = newSurface(opts.Surface); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if opts.CacheDir != "" && opts.Profile == nil {
		most := opts.CacheBytes
		def(&most, 1<<30)
		if s.disk, err = openDiskCache(opts.CacheDir, most); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	s.config, s.compiles = runtimeConfig(opts.interpret), !opts.interpret && hasCompiler()
	if opts.CompileChild != nil && opts.Profile == nil && s.compiles {
		if s.children, err = newChildren(*opts.CompileChild); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	s.running, s.stop = context.WithCancelCause(context.Background())
	return s, nil
}

// Close interrupts the calls that are running, waits until they have ended, and
// frees everything. Guests and compilations in children stop at once; a host
// function that waits has to obey its context, and a compilation that has begun
// in this process is waited for. When ctx ends before that, Close returns an
// error with its cause, and what is still in use is not freed. Closing twice
// does nothing.
func (s *Sandbox) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	open := make([]*Instance, 0, len(s.live))
	for in := range s.live {
		open = append(open, in)
	}
	s.mu.Unlock()
	s.admission.close()
	s.stop(ErrClosed)
	for _, in := range open {
		in.Close()
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	images, codes := slices.Collect(maps.Keys(s.images)), s.codes
	s.codes = nil // images that are closed from now on have little to do
	s.mu.Unlock()
	for _, im := range images {
		im.pool.close()
	}
	for _, c := range codes {
		c.close()
	}
	return nil
}

// wait returns when nothing runs or compiles, or with an error when ctx ends.
func (s *Sandbox) wait(ctx context.Context) error {
	// A condition cannot wait for a context, so the context wakes it.
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.live) > 0 || s.compiling > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("sandbox: close: %d calls and %d compilations still run: %w",
				len(s.live), s.compiling, context.Cause(ctx))
		}
		s.idle.Wait()
	}
	return nil
}

// enter counts an instance as live, unless the sandbox is closed.
func (s *Sandbox) enter(in *Instance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.live[in] = struct{}{}
	return true
}

// leave ends what enter began.
func (s *Sandbox) leave(in *Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, in)
	s.idle.Broadcast()
}
