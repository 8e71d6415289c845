package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Image is a loaded module under its limits, from which instances are made. It
// is safe for concurrent use. Images of the same bytes share the machine code.
type Image struct {
	sandbox *Sandbox
	code    *code
	name    string
	limits  Limits
	stages  []stage // what Prepare was given, nothing in an image that Load returned
	before  *state  // while it is made: what its last stage begins with; or nil
	near    *state  // while it is made: what it may be little else than; or nil
	pool    pool

	mu     sync.Mutex
	closed bool // guarded by mu
}

// Load verifies and compiles a module. The name is for messages. What is wrong
// with the module is told in a *RefusedError; other errors are limits that make
// no sense, ErrClosed, and ctx's cause. When ctx ends, Load returns at once, and
// a compilation that has begun goes on for nobody.
//
// The bytes must not change afterwards. The caller closes the image.
func (s *Sandbox) Load(ctx context.Context, name string, b []byte, l Limits) (*Image, error) {
	l, err := l.withDefaults()
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > l.ModuleBytes {
		return nil, &RefusedError{
			Name:   name,
			Reason: fmt.Sprintf("has %s, more than the limit of %s", bytesText(int64(len(b))), bytesText(l.ModuleBytes)),
			Fix:    "strip debug information (Go: -ldflags=-s -w; Rust: strip = true; wasm-opt --strip-debug), or raise the limit",
		}
	}
	c, err := s.acquire(ctx, b)
	var refused *RefusedError
	if errors.As(err, &refused) {
		mine := *refused // the code is shared, the name is not
		mine.Name = name
		return nil, &mine
	}
	if err != nil {
		return nil, err
	}
	if c.shape.memoryMin > uint64(l.MemoryBytes) {
		defer s.release(c)
		return nil, &RefusedError{
			Name: name,
			Reason: fmt.Sprintf("asks for %s of memory from the start, more than the limit of %s",
				bytesText(int64(c.shape.memoryMin)), bytesText(l.MemoryBytes)),
			Fix: "build it with a smaller initial memory, or raise the limit",
		}
	}
	return s.newImage(c, name, l), nil
}

// Name is what the module was loaded as.
func (im *Image) Name() string { return im.name }

// Digest is the SHA-256 of the module's bytes, in hexadecimal.
func (im *Image) Digest() string { return im.code.digest }

// Size is the length of the module in bytes.
func (im *Image) Size() int64 { return im.code.size }

// Limits are the limits its instances run under, defaults filled in.
func (im *Image) Limits() Limits { return im.limits }

// Imports are the functions that the module imports: what it can do.
func (im *Image) Imports() []ImportInfo { return slices.Clone(im.code.shape.imports) }

// Exports are what the module exports, sorted by name.
func (im *Image) Exports() []ExportInfo { return slices.Clone(im.code.shape.exports) }

// HasExport reports whether the module exports a function of that name.
func (im *Image) HasExport(name string) bool {
	_, ok := im.code.shape.funcType(name)
	return ok
}

// Memory is how many bytes of linear memory an instance has at first, and the
// most it can have: the module's own maximum or the limit, whichever is less.
func (im *Image) Memory() (first, most int64) {
	return int64(im.code.shape.memoryMin), min(int64(im.code.shape.memoryMax), im.limits.MemoryBytes)
}

// ResetInfo tells how instances are made clean between uses.
type ResetInfo struct {
	// Method says it in words: "copies back the pages it wrote to".
	Method string
	// ImageBytes is how much memory an instance begins with; 0 if each is made
	// anew, and before the first was made.
	ImageBytes int64
}

// Reset tells how instances are made clean between uses.
func (im *Image) Reset() ResetInfo {
	if why := im.code.notResettable; why != "" {
		return ResetInfo{Method: "is made anew each time: " + why}
	}
	pages := im.pool.peek()
	if pages == nil {
		return ResetInfo{Method: "is known when the first instance was made"}
	}
	return ResetInfo{Method: pages.method(), ImageBytes: int64(pages.size())}
}

// Prepare returns an image whose instances begin where setup left one: with the
// configuration read, say. It makes an instance now and runs setup on it, under
// cfg, and fails if setup does. The new image is closed on its own.
//
// Setup runs once for a module that can be reset, and for each instance
// otherwise, so it must do the same each time, and keep nothing of the instance
// that it is given. Clock and Seed of cfg are best left empty: they are then
// fixed, and every instance begins in the same state.
func (im *Image) Prepare(ctx context.Context, cfg InstanceConfig, setup func(ctx context.Context, in *Instance) error) (*Image, error) {
	return im.prepared(ctx, im.pool.begin(), nil, stage{cfg, setup})
}

// PrepareAnew is Prepare for a module which may do something else under this context
// from the start: what came before setup is done again.
func (im *Image) PrepareAnew(ctx context.Context, cfg InstanceConfig, setup func(ctx context.Context, in *Instance) error) (*Image, error) {
	return im.prepared(ctx, nil, im.pool.begin(), stage{cfg, setup})
}

// prepared makes an image with another stage, which begins with a state, unless that
// is nil, and may end near to one. The caller's uses of both become those of the image.
func (im *Image) prepared(ctx context.Context, before, near *state, last stage) (*Image, error) {
	if err := im.retain(); err != nil {
		before.release()
		near.release()
		return nil, err
	}
	out := im.sandbox.newImage(im.code, im.name, im.limits)
	out.stages, out.before, out.near = append(slices.Clone(im.stages), last), before, near
	in, err := out.Instantiate(ctx, InstanceConfig{})
	out.before.release() // nil, unless it did not come to that
	near.release()
	out.before, out.near = nil, nil
	if err != nil {
		out.Close()
		return nil, err
	}
	in.Close()
	return out, nil
}

// stage is one step of the way to the state in which instances begin.
type stage struct {
	config InstanceConfig
	do     func(ctx context.Context, in *Instance) error
}

// Instantiate makes an instance: the start function and _initialize have run, a
// prepared image's setup too. All of them run under a fixed clock and random
// bytes that the digest determines, with a nil Value, and print to nobody; setup
// runs under the configuration that Prepare was given. Then cfg applies.
//
// The error is a *Fault if the guest did wrong, ctx's cause if ctx ended, what
// setup returned, an *ImageRoomError, or ErrClosed. The caller closes the instance.
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

// supply gives in its core: a clean one from the pool, a new one in the state in
// which instances begin, or one that goes all the way there itself.
func (im *Image) supply(ctx context.Context, in *Instance) error {
	if in.core = im.pool.take(); in.core != nil {
		return nil
	}
	in.core = &core{code: im.code}
	if s := im.pool.begin(); s != nil {
		return in.core.instantiate(ctx, s, im)
	}
	if err := im.build(ctx, in); err != nil || im.code.notResettable != "" {
		return err
	}
	s, err := in.core.capture(ctx, im.sandbox, im.near)
	if err != nil {
		return err
	}
	adopted := im.pool.adopt(s)
	if adopted == s && in.core.become(s) {
		return nil
	}
	in.core.free()
	in.core = &core{code: im.code}
	return in.core.instantiate(ctx, adopted, im)
}

// build brings an instance from the module's bytes to the state in which
// instances begin, or only from that of the image which was prepared.
func (im *Image) build(ctx context.Context, in *Instance) error {
	if s := im.before; s != nil {
		im.before = nil // it is the instance's now
		if err := in.core.instantiate(ctx, s, im); err != nil {
			return err
		}
		return im.prepare(ctx, in, im.stages[len(im.stages)-1:])
	}
	in.configure(im.fixed(InstanceConfig{}))
	if err := in.start(ctx); err != nil {
		return err
	}
	if im.HasExport(initialize) {
		if _, err := in.Call(ctx, initialize); err != nil {
			return err
		}
	}
	return im.prepare(ctx, in, im.stages)
}

// prepare lets an instance go through stages.
func (im *Image) prepare(ctx context.Context, in *Instance, stages []stage) error {
	for _, s := range stages {
		in.configure(im.fixed(s.config))
		if err := s.do(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// fixed fills in a clock and a seed that depend on the module alone.
func (im *Image) fixed(cfg InstanceConfig) InstanceConfig {
	if cfg.Seed == nil {
		cfg.Seed = []byte(im.code.digest)
	}
	if cfg.Clock == nil {
		cfg.Clock = func() int64 { return imageTime }
	}
	return cfg
}

// newImage counts on a use of the code that the caller has.
func (s *Sandbox) newImage(c *code, name string, l Limits) *Image {
	im := &Image{sandbox: s, code: c, name: name, limits: l, pool: pool{budget: &s.idleBudget, rest: s.idleTime}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[im] = struct{}{}
	return im
}

// retain counts another user of the image's code, unless the image is closed.
func (im *Image) retain() error {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.closed {
		return ErrClosed
	}
	im.sandbox.retain(im.code)
	return nil
}

// Close gives the image back. Instances go on, and what they share is freed with
// the last of them. Closing twice does nothing.
func (im *Image) Close() {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.closed {
		return
	}
	im.closed = true
	im.pool.close()
	im.sandbox.forget(im)
	im.sandbox.release(im.code)
}

func (s *Sandbox) forget(im *Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.images, im)
}
