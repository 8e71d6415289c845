// Package compile turns the bytes of an untrusted module into machine code.
//
// [Compiler.Compile] verifies a module strictly, takes its data out, meters it, and lets
// wazero compile the result: in this process, or in a child process with limits. With a
// cache directory, machine code is stored on disk and verified before it is used. The
// result is a [Module]: the code, and the [Facts] that instances need.
//
// The package guarantees that wazero reads only modules that this project has encoded, and only machine code that it
// has stored itself. A mistake in a module is a [*verify.RefusedError]. Without a working cache, modules are compiled
// each time.
//
// The package imports the packages child, engine, image, text and verify of the sandbox. It depends neither on
// instances nor on the limits of calls.
package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// Options configure a [Compiler].
type Options struct {
	// CacheDir is the directory in which machine code is cached for later processes. If it
	// is empty, nothing is cached on disk.
	CacheDir string
	// CacheBytes bounds the size of the cache directory in bytes.
	CacheBytes int64
	// Children compile modules, unless wazero interprets them. If Children is nil, this
	// process compiles.
	Children *child.Pool
	// Surface lists the imports that modules can use, and the types of their exports.
	Surface *verify.Surface
	// Structure caps the numbers of a module's parts, such as its functions.
	Structure wasm.Limits
	// StartStackBytes bounds the stack of a start function.
	StartStackBytes int64
	// Interpret makes wazero interpret where it could compile.
	Interpret bool
	// Listen returns a listener for the functions of a module. The compiler uses it only when this process compiles
	// without a cache. If Listen is nil, no listener is used.
	Listen func(facts *Facts) experimental.FunctionListenerFactory
	// Logger receives failures of the cache and panics of the compiler. It is required.
	Logger *slog.Logger
}

// A Compiler compiles modules. It is safe for concurrent use.
type Compiler struct {
	opts     Options
	config   wazero.RuntimeConfig
	disk     *diskCache  // the cache on disk; nil if Options.CacheDir is empty
	children *child.Pool // the child processes that compile; nil if this process compiles
}

// New returns a compiler, or an error if the cache directory cannot be used.
func New(opts Options) (*Compiler, error) {
	c := &Compiler{opts: opts, config: engine.Config(opts.Interpret), children: opts.Children}
	if opts.CacheDir == "" {
		return c, nil
	}
	var err error
	c.disk, err = openDiskCache(opts.CacheDir, opts.CacheBytes)
	return c, err
}

// compiles reports whether wazero compiles and does not interpret.
func (c *Compiler) compiles() bool { return !c.opts.Interpret && engine.HasCompiler() }

// TempDir makes a temporary directory, in the cache directory if possible. The caller removes it. If this process is
// killed, a later process removes a directory in the cache directory.
func (c *Compiler) TempDir() (string, error) { return c.disk.tempDir() }

// A Module is compiled and ready to be linked and instantiated. It has its own runtime, so
// that everything that belongs to it, such as function types and instances, is freed with
// it.
type Module struct {
	*Facts
	Runtime  wazero.Runtime
	Compiled wazero.CompiledModule

	cache wazero.CompilationCache // nil if this process compiled the module without a cache directory
}

// Close frees the machine code. No instance of the module may be running.
func (m *Module) Close() {
	ctx := context.Background() // wazero does not use it
	if m.Compiled != nil {
		_ = m.Compiled.Close(ctx) // always nil
	}
	if m.Runtime != nil {
		_ = m.Runtime.Close(ctx) // only file systems of guests could fail
	}
	if m.cache != nil {
		_ = m.cache.Close(ctx) // always nil
	}
	m.Compiled, m.Runtime, m.cache = nil, nil, nil
}

// Compile compiles the module in b, whose SHA-256 digest is given in hexadecimal. The error is a
// [*verify.RefusedError] if the module is invalid, if a child exceeds a limit, or if the compiler
// panics, because then the module is the cause. If a child compiles, it occupies one of the
// tenant's slots, and is killed when ctx is done.
func (c *Compiler) Compile(ctx context.Context, tenant, digest string, b []byte) (m *Module, err error) {
	defer func() {
		if r := recover(); r != nil {
			c.opts.Logger.Error("the WebAssembly compiler panicked", "digest", digest, "panic", r)
			m, err = nil, &verify.RefusedError{Reason: fmt.Sprintf("cannot be compiled: %v", r)}
		}
	}()
	if c.disk != nil {
		m, err := c.compileIn(ctx, c.disk, tenant, digest, b)
		if errors.Is(err, engine.ErrNotCached) { // such as an entry for another processor; it has been removed
			m, err = c.compileIn(ctx, c.disk, tenant, digest, b)
		}
		if err == nil || !engine.IsCacheError(err) {
			return m, err
		}
		c.opts.Logger.Warn("the cache of compiled modules does not work", "dir", c.disk.dir, "error", err)
	}
	if c.children != nil {
		return c.compileIn(ctx, nil, tenant, digest, b)
	}
	return c.compileHere(ctx, b)
}

// Cached reports whether the cache on disk has an entry of the module with the given digest. It does not
// check the entry.
func (c *Compiler) Cached(digest string) bool {
	if c.disk == nil {
		return false
	}
	_, err := os.Stat(filepath.Join(c.disk.dir, c.cacheKey(digest), sumFile))
	return err == nil
}

// compileHere compiles in this process, without a cache.
func (c *Compiler) compileHere(ctx context.Context, b []byte) (*Module, error) {
	facts, metered, err := c.prepare(b)
	if err != nil {
		return nil, err
	}
	ctx = engine.WithWorkers(ctx)
	if c.opts.Listen != nil {
		ctx = experimental.WithFunctionListenerFactory(ctx, c.opts.Listen(facts))
	}
	m := &Module{Facts: facts, Runtime: wazero.NewRuntimeWithConfig(ctx, c.config)}
	if m.Compiled, err = m.Runtime.CompileModule(ctx, metered.Encode()); err != nil {
		m.Close()
		return nil, verify.Invalid(err)
	}
	return m, nil
}

// compileIn loads the module with the given digest from the cache disk. If it is missing, compileIn
// compiles b into the cache, or into a temporary one if disk is nil.
func (c *Compiler) compileIn(
	ctx context.Context,
	disk *diskCache,
	tenant, digest string,
	b []byte,
) (_ *Module, err error) {
	entry := disk.find(c.cacheKey(digest))
	m := &Module{Facts: entry.facts}
	var metered *wasm.Module
	module := entry.module
	if entry.hit() {
		if err := c.opts.Surface.Verify(m.Outline); err != nil { // another host may have stored it
			return nil, err
		}
	} else {
		if m.Facts, metered, err = c.prepare(b); err != nil {
			return nil, err
		}
		module = metered.Encode()
		if err := entry.makeDir(); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			entry.drop()
			m.Close()
		}
	}()
	compiling := engine.CachedOnly(ctx)
	switch {
	case entry.hit():
	case c.children != nil:
		if m.Names, err = c.readable(ctx, tenant, entry.dir, m.Names); err != nil {
			return nil, err
		}
		if err := c.children.Compile(ctx, tenant, entry.dir, module); err != nil {
			return nil, err
		}
	default:
		compiling = engine.WithWorkers(ctx)
	}
	if m.cache, err = engine.OpenCache(entry.dir); err != nil {
		return nil, err
	}
	m.Runtime = wazero.NewRuntimeWithConfig(ctx, c.config.WithCompilationCache(m.cache))
	m.Compiled, err = m.Runtime.CompileModule(compiling, module)
	switch {
	case err == nil:
		if err := entry.store(ctx, c.config, metered, m.Facts); err != nil {
			c.opts.Logger.Warn("a compiled module was not cached", "digest", digest, "error", err)
		}
		return m, nil
	case entry.hit() && engine.IsCacheError(err): // such as a wrong checksum of the code
		return nil, fmt.Errorf("sandbox: take from the cache: %w: %w", engine.ErrNotCached, err)
	case errors.Is(err, engine.ErrNotCached), engine.IsCacheError(err):
		return nil, fmt.Errorf("sandbox: compile: %w", err)
	default:
		return nil, verify.Invalid(err)
	}
}

// prepareVersion is part of the cache key. Increment it when prepare, including the
// decoder, rejects more modules or determines other facts, or when the encoding of facts
// changes. wasm.MeterVersion is the version of metering.
const prepareVersion = 6

// cacheKey returns the name of the cache entry of the module with this digest: a hash of
// everything that the compiled module, and the decision to accept it, depend on.
func (c *Compiler) cacheKey(digest string) string {
	sum := sha256.Sum256(
		fmt.Appendf(nil, "module %s, rewritten %d, metered %d, start with %d bytes of stack, within %+v, compiled: %v",
			digest, prepareVersion, wasm.MeterVersion, c.opts.StartStackBytes, c.opts.Structure, c.compiles()),
	)
	return hex.EncodeToString(sum[:])
}
