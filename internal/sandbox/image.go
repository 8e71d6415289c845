package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agent-runner/agent-runner/internal/sandbox/image"
	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// Image is a loaded module with its limits, from which instances are made. It is safe for
// concurrent use. Images of the same bytes share the machine code.
type Image struct {
	sandbox *Sandbox
	ref     *codeRef
	code    *code // the code of ref
	name    string
	limits  Limits
	stages  []stage // stages of Prepare; none in an image from Load
	pool    pool

	// start and similar are set only while the image is prepared. They are nil if there is no such
	// snapshot.
	start   *image.Snapshot // the snapshot that the last stage starts from
	similar *image.Snapshot // a snapshot that this image's own probably resembles

	mu     sync.Mutex
	closed bool // guarded by mu
}

// Load verifies and compiles a module. The name is for messages. The error is a [*verify.RefusedError] if the module
// is invalid, exceeds a limit, or cannot be compiled within the limits on compiling. Otherwise it is ErrClosed or
// ctx's cause, or describes invalid limits or an error of the operating system. When ctx is done, Load returns at
// once; the compilation is canceled if no other caller waits for it.
//
// The bytes must not be modified afterwards. The caller closes the image.
func (s *Sandbox) Load(ctx context.Context, name string, b []byte, l Limits) (*Image, error) {
	l, err := l.withDefaults()
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > l.ModuleBytes {
		return nil, &verify.RefusedError{
			Name:   name,
			Reason: fmt.Sprintf("has %s, more than the limit of %s", text.Bytes(int64(len(b))), text.Bytes(l.ModuleBytes)),
			Fix:    "strip debug information (Go: -ldflags=-s -w; Rust: strip = true; wasm-opt --strip-debug), or raise the limit",
		}
	}
	ref, err := s.acquire(ctx, b)
	var refused *verify.RefusedError
	if errors.As(err, &refused) {
		own := *refused // the code is shared, the name is not
		own.Name = name
		return nil, &own
	}
	if err != nil {
		return nil, err
	}
	if c := ref.Value; c.Outline.MemoryMin > uint64(l.MemoryBytes) {
		defer ref.Release()
		return nil, &verify.RefusedError{
			Name: name,
			Reason: fmt.Sprintf("asks for %s of memory from the start, more than the limit of %s",
				text.Bytes(int64(c.Outline.MemoryMin)), text.Bytes(l.MemoryBytes)),
			Fix: "build it with a smaller initial memory, or raise the limit",
		}
	}
	return s.newImage(ref, name, l), nil
}

// Name returns the name that the module was loaded with.
func (im *Image) Name() string { return im.name }

// Digest returns the SHA-256 of the module's bytes, in hexadecimal.
func (im *Image) Digest() string { return im.code.digest }

// Size returns the length of the module in bytes.
func (im *Image) Size() int64 { return im.code.size }

// Limits returns the limits of the instances, with defaults.
func (im *Image) Limits() Limits { return im.limits }

// Imports returns the functions that the module imports.
func (im *Image) Imports() []verify.ImportInfo { return slices.Clone(im.code.Outline.Imports) }

// Exports returns the module's exports, sorted by name.
func (im *Image) Exports() []verify.ExportInfo { return slices.Clone(im.code.Outline.Exports) }

// HasExport reports whether the module exports a function of that name.
func (im *Image) HasExport(name string) bool {
	_, ok := im.code.Outline.FuncType(name)
	return ok
}

// Memory returns the initial size that the module declares for its linear memory, and the maximum size, in bytes.
// Instances of an image may start with more than the declared size; see [ResetInfo]. The maximum is the module's own
// or the limit, whichever is less.
func (im *Image) Memory() (initial, maximum int64) {
	return int64(im.code.Outline.MemoryMin), min(int64(im.code.Outline.MemoryMax), im.limits.MemoryBytes)
}

// ResetInfo describes how instances are reset between uses.
type ResetInfo struct {
	// Method describes the reset for people, such as "copies back the pages it wrote to".
	Method string
	// ImageBytes is the size of the memory that an instance starts with. It is 0 if instances
	// cannot be reset, and before the first was made.
	ImageBytes int64
}

// Reset describes how instances are reset between uses.
func (im *Image) Reset() ResetInfo {
	if why := im.code.NotResettable; why != "" {
		return ResetInfo{Method: "is made anew each time: " + why}
	}
	return im.pool.resetInfo()
}

// Prepare returns an image whose instances start in the state in which setup leaves an
// instance, for example after it has read its configuration. Prepare makes an instance, runs
// setup on it under cfg, and fails if setup does. The caller closes the new image.
//
// Setup runs once for a module that can be reset, and for each instance otherwise. Setup must therefore have the same
// effect each time and must not keep its instance. Clock and Seed of cfg should be empty. They are then fixed, and
// every instance starts in the same state.
func (im *Image) Prepare(
	ctx context.Context,
	cfg InstanceConfig,
	setup func(ctx context.Context, in *Instance) error,
) (*Image, error) {
	return im.prepared(ctx, im.pool.retainSnapshot(), nil, stage{cfg, setup})
}

// PrepareAnew is like Prepare, but repeats the start function, _initialize and earlier setups before setup. It is for
// a module whose earlier steps may have another result under ctx.
func (im *Image) PrepareAnew(
	ctx context.Context,
	cfg InstanceConfig,
	setup func(ctx context.Context, in *Instance) error,
) (*Image, error) {
	return im.prepared(ctx, nil, im.pool.retainSnapshot(), stage{cfg, setup})
}

// prepared returns an image with last as an additional stage. The stage starts from the snapshot
// start; if that is nil, all stages are repeated. similar is a snapshot that the new image's
// snapshot probably resembles; it may be nil. prepared takes over the caller's references to both.
func (im *Image) prepared(ctx context.Context, start, similar *image.Snapshot, last stage) (*Image, error) {
	ref, err := im.retain()
	if err != nil {
		start.Release()
		similar.Release()
		return nil, err
	}
	out := im.sandbox.newImage(ref, im.name, im.limits)
	out.stages, out.start, out.similar = append(slices.Clone(im.stages), last), start, similar
	in, err := out.Instantiate(ctx, InstanceConfig{})
	out.start.Release() // nil if an instance has taken it over
	similar.Release()
	out.start, out.similar = nil, nil
	if err != nil {
		out.Close()
		return nil, err
	}
	in.Close()
	return out, nil
}

// A stage is a setup of Prepare and its configuration.
type stage struct {
	config InstanceConfig
	do     func(ctx context.Context, in *Instance) error
}

// Instantiate makes an instance. Its start function and _initialize have run, and the setups
// of a prepared image. The first two run with a fixed clock, random bytes that the digest
// determines, a nil Value and discarded output; a setup runs under the configuration of its
// Prepare. Then cfg applies.
//
// The error is a [*FaultError] for a mistake of the guest, ctx's cause, the error of a setup, an
// [*ImageRoomError], ErrClosed, or an error that says that the system lacks memory. The caller
// closes the instance.
func (im *Image) Instantiate(ctx context.Context, cfg InstanceConfig) (*Instance, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	in, err := im.newInstance()
	if err != nil {
		return nil, err
	}
	if err := im.supply(ctx, in); err != nil {
		in.Close()
		return nil, err
	}
	in.configure(cfg)
	return in, nil
}

// supply sets the core of in: one from the pool, a new one from the snapshot, or one that
// repeats all steps.
func (im *Image) supply(ctx context.Context, in *Instance) error {
	if in.core = im.pool.take(); in.core != nil {
		return nil
	}
	in.core = &core{code: im.code}
	if s := im.pool.retainSnapshot(); s != nil {
		return in.core.instantiate(ctx, s, im)
	}
	if err := im.build(ctx, in); err != nil || im.code.NotResettable != "" {
		return err
	}
	s, err := in.core.capture(ctx, im.sandbox, im.similar)
	if err != nil {
		return err
	}
	adopted := im.pool.adopt(s)
	if adopted == s && in.core.linear.Adopt(s) {
		return nil
	}
	in.core.close()
	in.core = &core{code: im.code}
	return in.core.instantiate(ctx, adopted, im)
}

// build runs the start function, _initialize and all setups of an instance, or only the last
// setup if the image has a snapshot to start from.
func (im *Image) build(ctx context.Context, in *Instance) error {
	if s := im.start; s != nil {
		im.start = nil // the instance owns the reference now
		if err := in.core.instantiate(ctx, s, im); err != nil {
			return err
		}
		return im.prepare(ctx, in, im.stages[len(im.stages)-1:])
	}
	in.configure(im.fixed(InstanceConfig{}))
	if err := in.start(ctx); err != nil {
		return err
	}
	if im.HasExport(verify.Initialize) {
		if _, err := in.Call(ctx, verify.Initialize); err != nil {
			return err
		}
	}
	return im.prepare(ctx, in, im.stages)
}

// prepare runs stages on an instance.
func (im *Image) prepare(ctx context.Context, in *Instance, stages []stage) error {
	for _, s := range stages {
		in.configure(im.fixed(s.config))
		if err := s.do(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// fixed returns cfg with defaults for Clock and Seed: a clock that stands still, and a seed that
// depends only on the module.
func (im *Image) fixed(cfg InstanceConfig) InstanceConfig {
	if cfg.Seed == nil {
		cfg.Seed = []byte(im.code.digest)
	}
	if cfg.Clock == nil {
		cfg.Clock = func() int64 { return imageTime }
	}
	return cfg
}

// newImage returns an image. The caller's reference to the code becomes the image's.
func (s *Sandbox) newImage(ref *codeRef, name string, l Limits) *Image {
	im := &Image{
		sandbox: s,
		ref:     ref,
		code:    ref.Value,
		name:    name,
		limits:  l,
		pool:    pool{budget: &s.idleBudget, timeout: s.idleTimeout},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[im] = struct{}{}
	return im
}

// retain returns another reference to the image's code, or ErrClosed if the image is closed.
func (im *Image) retain() (*codeRef, error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.closed {
		return nil, ErrClosed
	}
	return im.ref.Retain(), nil
}

// Close closes the image. Instances remain usable, and the code and memory that they share are freed with the last of
// them. Closing twice has no effect.
func (im *Image) Close() {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.closed {
		return
	}
	im.closed = true
	im.pool.close()
	im.sandbox.forget(im)
	im.ref.Release()
}

func (s *Sandbox) forget(im *Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.images, im)
}
