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

	// What Prepare was given; setup is nil in an image that Load returned.
	prepared InstanceConfig
	setup    func(ctx context.Context, in *Instance) error

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
			Reason: fmt.Sprintf("has %s, more than the limit of %s", size(int64(len(b))), size(l.ModuleBytes)),
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
				size(int64(c.shape.memoryMin)), size(l.MemoryBytes)),
			Fix: "build it with a smaller initial memory, or raise the limit",
		}
	}
	return &Image{sandbox: s, code: c, name: name, limits: l}, nil
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

// Prepare returns an image whose instances begin where setup left one: with the
// configuration read, say. It makes an instance now and runs setup on it, under
// cfg, and fails if setup does. The new image is closed on its own.
//
// Whether setup runs once or for each instance is the sandbox's choice, so it
// must do the same each time, and keep nothing of the instance that it is given.
// Clock and Seed of cfg are best left empty: they are then fixed, and every
// instance begins in the same state.
func (im *Image) Prepare(ctx context.Context, cfg InstanceConfig, setup func(ctx context.Context, in *Instance) error) (*Image, error) {
	if err := im.retain(); err != nil {
		return nil, err
	}
	out := &Image{sandbox: im.sandbox, code: im.code, name: im.name, limits: im.limits, prepared: cfg, setup: setup}
	if before := im.setup; before != nil {
		out.setup = func(ctx context.Context, in *Instance) error {
			if err := before(ctx, in); err != nil {
				return err
			}
			return setup(ctx, in)
		}
	}
	in, err := out.Instantiate(ctx, InstanceConfig{})
	if err != nil {
		out.Close()
		return nil, err
	}
	in.Close()
	return out, nil
}

// Instantiate makes an instance: the start function and _initialize have run, a
// prepared image's setup too. All of them run under a fixed clock and random
// bytes that the digest determines, with a nil Value, and print to nobody; in a
// prepared image they run under the configuration given to Prepare. Then cfg
// applies.
//
// The error is a *Fault if the guest did wrong, ctx's cause if ctx ended, what
// setup returned, or ErrClosed. The caller closes the instance.
func (im *Image) Instantiate(ctx context.Context, cfg InstanceConfig) (*Instance, error) {
	in, err := im.newInstance(ctx)
	if err != nil {
		return nil, err
	}
	if im.setup != nil {
		if err := im.setup(ctx, in); err != nil {
			in.Close()
			return nil, err
		}
	}
	in.configure(cfg)
	return in, nil
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
	if !im.closed {
		im.closed = true
		im.sandbox.release(im.code)
	}
}
