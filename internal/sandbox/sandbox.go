// Package sandbox turns untrusted WebAssembly bytes into instances that are safe to call. The caller's [Surface]
// defines which functions guests can import and what those do.
//
// # From bytes to a closed instance
//
//  1. Verify (package verify, and package wasm below it). wazero gets only modules
//     that this project's strict decoder and verifier have accepted. They check the structure,
//     caps on everything that can be counted, imports from the surface or WASI with exactly
//     their types, an exported memory within the limit, and exports with the types that the
//     surface expects. A rejection is a [*verify.RefusedError].
//  2. Meter (package wasm, fuel.go, slice.go). The module is rewritten so that it counts its
//     work and its stack, and calls the host whenever a slice of fuel is used up. Only then
//     are the limits of work and time and cancellation checked, and only then can Go's
//     garbage collector stop the world.
//  3. Compile (package compile, code.go). Each digest is compiled once, however many callers
//     load the same bytes concurrently. The code is shared and reference-counted. With
//     [Options.CacheDir], machine code is stored on disk and verified before it is used.
//     With [Options.CompileChild], a child process compiles in bounded time and memory;
//     otherwise this process compiles, bounded only by the size of the module's parts.
//  4. Snapshot (package image, core.go). The first instance of an image runs the module's
//     start function, _initialize, and the setup of [Image.Prepare]. Its memory and globals
//     are the state in which all other instances start. On Linux they map that memory
//     privately, and a reset copies back only the pages that were written to; elsewhere all
//     of it is copied. A module that changes its tables, or has a start function, repeats
//     all steps for each instance; [Image.Reset] reports that.
//  5. Pool (pool.go). A closed instance is reset and waits for the next user of the same
//     image, if there is memory for it, it did not fault or grow, and it is not old. The
//     caller reserves the memory of instances before it starts work that needs them, with
//     [Sandbox.Reserve] (admission.go).
//  6. Call (instance.go, guest.go). An instance serves one call at a time. The guest's own
//     time and its memory are limited, and its pointers are checked. A mistake of the guest is
//     a [*FaultError], after which the instance is dead.
//
// The package imports the packages below it. It does not depend on packages about agents.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/internal/refcache"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/compile"
	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

var (
	// ErrClosed is the error of a closed sandbox, image or instance, and of a call whose
	// instance or sandbox was closed during the call.
	ErrClosed = errors.New("sandbox: closed")

	// ErrNoChildren is the error of RunJob if the sandbox uses no child processes.
	ErrNoChildren = errors.New("sandbox: there are no children")
)

// Options configure a [Sandbox]. [New] copies them.
type Options struct {
	// CacheDir stores compiled machine code between processes. It is created with mode 0700
	// if it is missing, and rejected if others own it or can write to it. Entries are found
	// by the digest of the module, the version of wazero, the operating system, and the
	// architecture and features of the processor. An entry that is not byte-for-byte what was
	// stored is removed and compiled again. If CacheDir is empty, no machine code is cached
	// on disk.
	CacheDir string

	// CacheBytes bounds the cache directory; the least recently used entries are evicted.
	// The default is 1 GiB.
	CacheBytes int64

	// CompileChild lets child processes compile, within these limits. If CompileChild
	// is nil, this process compiles.
	CompileChild *child.Options

	// Surface lists what guests can import in addition to WASI, and the types that their
	// exports must have. The zero value allows only WASI and any exports.
	Surface Surface

	// Structure caps the numbers of a module's parts, such as its functions. Its ModuleBytes and
	// MemoryPages have no effect, because Limits bounds them for each module. If Structure is nil,
	// wasm.DefaultLimits applies.
	Structure *wasm.Limits

	// MemoryBytes is the memory that [Sandbox.Reserve] grants in total. The default is half of the
	// machine's memory, or of the container's limit; 2 GiB where that is unknown.
	MemoryBytes int64

	// ImageBytes bounds the memory of all images: the content that instances start with, without
	// pages of zeros. An image beyond it, or beyond the share of its [Tenant], fails with an
	// [*ImageRoomError]. The default is a third of the machine's memory, or of the container's
	// limit.
	ImageBytes int64

	// IdleBytes bounds the memory of all idle instances together, without the pages that they share
	// with their images. The default is 256 MiB. If IdleBytes is negative, closed instances are not
	// reused.
	IdleBytes int64

	// IdleTimeout is the time after which an idle instance is closed. The default is 30 s.
	IdleTimeout time.Duration

	// Profile collects the fuel that each function of guests uses. With a profile, calls take
	// several times as long, and modules are compiled in this process each time, without CacheDir
	// and CompileChild. If Profile is nil, no profile is collected.
	Profile *Profile

	// Logger receives messages that an operator should look into, such as panics of host functions,
	// which are bugs of the host. If Logger is nil, messages are discarded.
	Logger *slog.Logger

	// interpret uses wazero's interpreter even where its compiler works, so that tests can
	// compare both.
	interpret bool

	// portable uses only mechanisms that work on every system, so that tests can compare them with
	// those of this system.
	portable bool
}

// unknownMachine is the memory in bytes of a machine where it cannot be determined.
const unknownMachine = 4 << 30

// Sandbox loads modules. It is safe for concurrent use.
type Sandbox struct {
	surface  *surface
	log      *slog.Logger
	compiler *compile.Compiler
	children *child.Pool // the child processes; nil if the sandbox uses none
	profile  *Profile    // Options.Profile; nil if no profile is collected
	portable bool

	admission   admission
	idleBudget  budget
	idleTimeout time.Duration
	imageBudget admission

	mu        sync.Mutex
	images    map[*Image]struct{}            // guarded by mu
	codes     *refcache.Cache[string, *code] // compiled modules by digest
	live      map[*Instance]struct{}         // guarded by mu
	compiling int                            // guarded by mu
	closed    bool                           // guarded by mu
	idle      *sync.Cond                     // signals that live or compiling shrank; uses mu
}

// New returns a sandbox, which the caller must close. If opts is nil, all options have their zero values. New fails
// if the cache directory cannot be used, the surface is inconsistent, or child processes are requested with invalid
// options or in a child.
func New(_ context.Context, opts *Options) (*Sandbox, error) {
	if opts == nil {
		opts = &Options{}
	}
	s := &Sandbox{
		log:         opts.Logger,
		portable:    opts.portable,
		idleTimeout: cmp.Or(opts.IdleTimeout, 30*time.Second),
		profile:     opts.Profile,
		images:      map[*Image]struct{}{},
		codes:       newCodes(),
		live:        map[*Instance]struct{}{},
	}
	s.admission.total = cmp.Or(opts.MemoryBytes, machineMemory()/2)
	s.admission.free = s.admission.total
	s.imageBudget.total = cmp.Or(opts.ImageBytes, machineMemory()/3)
	s.imageBudget.free = s.imageBudget.total
	s.idleBudget.max = cmp.Or(opts.IdleBytes, 256<<20)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.idle = sync.NewCond(&s.mu)
	var err error
	if s.surface, err = newSurface(opts.Surface); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if opts.CompileChild != nil && opts.Profile == nil && !opts.interpret && engine.HasCompiler() {
		if s.children, err = child.NewPool(*opts.CompileChild); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	if s.compiler, err = compile.New(s.compileOptions(opts)); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return s, nil
}

// compileOptions returns the options of the compiler.
func (s *Sandbox) compileOptions(opts *Options) compile.Options {
	structure := wasm.DefaultLimits()
	if opts.Structure != nil {
		structure = *opts.Structure
	}
	structure.ModuleBytes, structure.MemoryPages = math.MaxInt, verify.MaxMemoryBytes/verify.PageBytes
	o := compile.Options{
		CacheDir: opts.CacheDir, CacheBytes: cmp.Or(opts.CacheBytes, 1<<30), Children: s.children, Surface: s.surface.types,
		Structure: structure, StartStackBytes: startStack, Interpret: opts.interpret, Logger: s.log,
	}
	if s.profile != nil {
		o.CacheDir = ""
		o.Listen = func(f *compile.Facts) experimental.FunctionListenerFactory { return listeners{s.profile, f} }
	}
	return o
}

// Close interrupts the running calls, waits until they have ended, and frees everything. Guests and compilations in
// children stop at once. A host function that waits must return when its context is done, and Close waits for a
// compilation in this process. If ctx is done before that, Close returns an error with its cause, and does not free
// the resources that are still in use. Closing twice has no effect.
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
	if s.children != nil {
		s.children.Close(ErrClosed)
	}
	for _, in := range open {
		in.Close()
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	images := slices.Collect(maps.Keys(s.images))
	s.mu.Unlock()
	for _, im := range images {
		im.Close()
	}
	return nil
}

// wait waits until no instance is live and nothing compiles. It returns an error if ctx is done
// before that.
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

// enter counts an instance as live and returns true. If the sandbox is closed, it returns false.
func (s *Sandbox) enter(in *Instance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.live[in] = struct{}{}
	return true
}

// leave removes an instance that enter counted.
func (s *Sandbox) leave(in *Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, in)
	s.idle.Broadcast()
}

// Instances returns the number of instances that are in use. Idle ones do not count.
func (s *Sandbox) Instances() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// RunJob lets a child process do a job within the limits of Options.CompileChild, and returns its
// output. If the job fails, the error has the message of the handler's error. Otherwise it is a
// [*verify.RefusedError] if the job exceeded a limit or crashed, ErrNoChildren if the sandbox uses
// no child processes, ErrClosed, ctx's cause, or an error of the operating system.
func (s *Sandbox) RunJob(ctx context.Context, job child.Job) ([]byte, error) {
	if s.children == nil {
		return nil, ErrNoChildren
	}
	dir, err := s.compiler.TempDir()
	if err != nil {
		return nil, fmt.Errorf("sandbox: job %s: %w", job.Name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return s.children.Run(ctx, tenantOf(ctx).Name, dir, job)
}
