package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/host/sandbox/wasm"
)

// code is a verified and compiled module, shared by all images of the same
// bytes. It has a wazero runtime of its own, so that what a module brings along
// (function types, instances) is gone when the module is.
type code struct {
	digest string
	size   int64
	ready  chan struct{} // closed when shape, or err, is there
	err    error
	shape  *shape
	names  *names
	data   []dataSegment // what a new memory holds

	globals       int    // mutable globals that are exported for snapshots
	notResettable string // why instances cannot be reset; empty if they can

	runtime  wazero.Runtime
	compiled wazero.CompiledModule

	once sync.Once // for close
	refs int       // images, instances and waiting loads; guarded by Sandbox.mu
}

func runtimeConfig(cache wazero.CompilationCache, interpret bool) wazero.RuntimeConfig {
	config := wazero.NewRuntimeConfig()
	if interpret {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	return config.
		WithCoreFeatures(api.CoreFeaturesV2).
		WithCompilationCache(cache).
		WithCloseOnContextDone(true).
		WithDebugInfoEnabled(false) // DWARF is not verified, so it is not read
}

// openCache returns wazero's compilation cache in dir, or in memory only. It
// finds out now whether dir can be written, since wazero would tell only when
// the first module is loaded.
func openCache(dir string) (wazero.CompilationCache, error) {
	if dir == "" {
		return wazero.NewCompilationCache(), nil
	}
	const fix = "choose another cache directory, or none"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make cache directory %s: %w; %s", dir, err, fix)
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache directory %s: %w; %s", dir, err, fix)
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return nil, fmt.Errorf("write to cache directory %s: %w; %s", filepath.Clean(dir), err, fix)
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return nil, fmt.Errorf("write to cache directory %s: %w; %s", dir, err, fix)
	}
	return cache, nil
}

// acquire returns the code of these bytes, which is compiled once however many
// ask for it at the same time. The caller releases it.
func (s *Sandbox) acquire(ctx context.Context, b []byte) (*code, error) {
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])

	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	c, ok := s.codes[digest]
	if !ok {
		c = &code{digest: digest, size: int64(len(b)), ready: make(chan struct{}), refs: 1}
		s.codes[digest] = c
		s.compiling++
		// On its own goroutine, so that those who wait for the same bytes do not
		// depend on the context of whoever came first.
		go func() {
			defer s.compiled(c)
			c.err = s.compile(context.WithoutCancel(ctx), c, b)
		}()
	}
	c.refs++
	s.mu.Unlock()

	select {
	case <-c.ready:
	case <-ctx.Done():
		s.release(c)
		return nil, context.Cause(ctx)
	}
	if c.err != nil {
		s.release(c)
		return nil, c.err
	}
	return c, nil
}

func (s *Sandbox) compiled(c *code) {
	close(c.ready)
	s.release(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compiling--
	s.idle.Broadcast()
}

// retain counts another user of c, which must have one already.
func (s *Sandbox) retain(c *code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.refs++
}

// release takes one user away from c, and closes it after the last.
func (s *Sandbox) release(c *code) {
	s.mu.Lock()
	c.refs--
	last := c.refs == 0
	if last {
		delete(s.codes, c.digest)
	}
	s.mu.Unlock()
	if last {
		c.close()
	}
}

// close frees the machine code. Nothing may run in it. Closing twice does
// nothing: an image may be closed while its sandbox is.
func (c *code) close() {
	c.once.Do(func() {
		ctx := context.Background() // wazero does not look at it
		if c.compiled != nil {
			_ = c.compiled.Close(ctx) // always nil
		}
		if c.runtime != nil {
			_ = c.runtime.Close(ctx) // only file systems of guests could fail
		}
	})
}

// compile verifies and compiles c. wazero sees the module as we wrote it, never
// the bytes that came; custom sections are gone then. A panic of the compiler is
// an error, since the module is not the host's.
func (s *Sandbox) compile(ctx context.Context, c *code, b []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("the WebAssembly compiler panicked", "digest", c.digest, "panic", r)
			err = &RefusedError{Reason: fmt.Sprintf("cannot be compiled: %v", r)}
		}
	}()
	m, err := wasm.Decode(b, s.structure)
	if err != nil {
		return &RefusedError{Reason: err.Error(), Err: err}
	}
	if c.shape, err = shapeOf(m); err != nil {
		return err
	}
	if err := s.surface.verify(c.shape); err != nil {
		return err
	}
	c.names = readNames(b)
	boundTables(m, uint32(s.structure.TableEntries))
	if c.data, err = takeData(m); err != nil {
		return err
	}
	c.globals, c.notResettable = prepareReset(m)

	c.runtime = wazero.NewRuntimeWithConfig(ctx, s.config)
	ctx = experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0))
	if c.compiled, err = c.runtime.CompileModule(ctx, m.Encode()); err != nil {
		// Only the types of operands are left to be found wrong here.
		return &RefusedError{Reason: "is not valid: " + err.Error(), Fix: "build it again; the toolchain made a mistake", Err: err}
	}
	return s.link(ctx, c)
}

// link makes host modules in c's runtime that hold exactly what c imports.
func (s *Sandbox) link(ctx context.Context, c *code) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, info := range c.shape.imports {
		builder, ok := builders[info.Module]
		if !ok {
			builder = c.runtime.NewHostModuleBuilder(info.Module)
			builders[info.Module] = builder
		}
		imp := s.surface.modules[info.Module][info.Name]
		builder.NewFunctionBuilder().
			WithGoModuleFunction(hostFunction(imp), imp.Params, imp.Results).
			Export(imp.Name)
	}
	for name, builder := range builders {
		if _, err := builder.Instantiate(ctx); err != nil {
			return fmt.Errorf("sandbox: link %s: %w", name, err)
		}
	}
	return nil
}
