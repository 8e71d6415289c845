package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// code is a verified and compiled module, shared by all images of the same
// bytes. It has a wazero runtime of its own, so that what a module brings along
// (function types, instances) is gone when the module is.
type code struct {
	digest string
	size   int64
	ready  chan struct{} // closed when the rest, or err, is there
	err    error
	facts

	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	cache    wazero.CompilationCache // nil without a cache on disk

	suspect event // a slice of it took long
	heldUp  event // and it was known that nobody else had the processor

	once    sync.Once // for close
	refs    int       // images, instances and waiting loads; guarded by Sandbox.mu
	pending bool      // it is being compiled, which counts as one of refs; guarded by Sandbox.mu
	// abandon stops compiling in a child.
	abandon context.CancelCauseFunc
}

// errAbandoned ends a compilation whose callers have all left.
var errAbandoned = errors.New("sandbox: compilation abandoned: its callers have left")

func runtimeConfig(interpret bool) wazero.RuntimeConfig {
	config := wazero.NewRuntimeConfig()
	if interpret {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	return config.
		WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false) // DWARF is not verified, so it is not read
}

// hasCompiler reports whether wazero compiles here, and does not interpret; it
// depends on the system, the processor and what the system allows.
var hasCompiler = sync.OnceValue(func() bool { return compiles(runtimeConfig(false)) })

// compiles asks wazero, which only tells by not beginning to compile.
func compiles(config wazero.RuntimeConfig) bool {
	function := wasm.Module{
		Types: []wasm.FuncType{{}}, Functions: []uint32{0}, Code: []wasm.Code{{Body: []byte{byte(wasm.OpEnd)}}},
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, config)
	defer func() { _ = r.Close(ctx) }() // only file systems of guests could fail
	_, err := r.CompileModule(notToCompile(ctx), function.Encode())
	return errors.Is(err, errNotTaken)
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
		c = &code{digest: digest, size: int64(len(b)), ready: make(chan struct{}), refs: 1, pending: true}
		s.codes[digest] = c
		s.compiling++
		// On its own goroutine, so that those who wait for the same bytes do not
		// depend on the context of whoever came first. It ends when all of them have left.
		var compiling context.Context
		compiling, c.abandon = context.WithCancelCause(context.WithoutCancel(ctx))
		go func() {
			defer c.abandon(nil)
			defer s.compiled(c)
			c.err = s.compile(compiling, c, b)
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
	s.mu.Lock()
	c.pending = false
	s.mu.Unlock()
	s.release(c) // first, so that nothing of a refused module is left when Load returns
	close(c.ready)
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

// release takes one user away from c, and closes it after the last. If it is being
// compiled and all callers have left, release stops the child.
func (s *Sandbox) release(c *code) {
	s.mu.Lock()
	c.refs--
	last, abandoned := c.refs == 0, c.refs == 1 && c.pending
	if (last || abandoned) && s.codes[c.digest] == c {
		delete(s.codes, c.digest)
	}
	s.mu.Unlock()
	if abandoned {
		c.abandon(errAbandoned)
	}
	if last {
		c.close()
	}
}

// close frees the machine code. Nothing may run in it. Closing twice does
// nothing: an image may be closed while its sandbox is.
func (c *code) close() {
	c.once.Do(c.unload)
}

// unload frees what wazero holds for c.
func (c *code) unload() {
	ctx := context.Background() // wazero does not look at it
	if c.compiled != nil {
		_ = c.compiled.Close(ctx) // always nil
	}
	if c.runtime != nil {
		_ = c.runtime.Close(ctx) // only file systems of guests could fail
	}
	if c.cache != nil {
		_ = c.cache.Close(ctx) // always nil
	}
	c.compiled, c.runtime, c.cache = nil, nil, nil
}

// compile verifies, meters and compiles c. wazero sees the module as we wrote it, never
// the bytes that came; custom sections are gone then. A panic of the compiler is
// an error, since the module is not the host's.
func (s *Sandbox) compile(ctx context.Context, c *code, b []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("the WebAssembly compiler panicked", "digest", c.digest, "panic", r)
			err = &RefusedError{Reason: fmt.Sprintf("cannot be compiled: %v", r)}
		}
	}()
	if err := s.generate(ctx, c, b); err != nil {
		return err
	}
	return s.link(ctx, c)
}

// generate makes machine code of a module, or takes it from the cache. If the
// cache fails that is no reason to refuse the module.
func (s *Sandbox) generate(ctx context.Context, c *code, b []byte) error {
	if s.disk != nil {
		err := s.generateIn(ctx, c, s.disk, b)
		if errors.Is(err, errNotTaken) { // of another processor, say; it is gone now
			err = s.generateIn(ctx, c, s.disk, b)
		}
		if err == nil || !cacheFailed(err) {
			return err
		}
		s.log.Warn("the cache of compiled modules does not work", "dir", s.disk.dir, "error", err)
	}
	if s.children != nil {
		return s.generateIn(ctx, c, nil, b)
	}
	var module *wasm.Module
	var err error
	if c.facts, module, err = s.rewrite(b); err != nil {
		return err
	}
	c.runtime = wazero.NewRuntimeWithConfig(ctx, s.config)
	if c.compiled, err = c.runtime.CompileModule(s.profile.listen(withWorkers(ctx), c), module.Encode()); err != nil {
		return invalid(err)
	}
	return nil
}

// generateIn takes machine code, and what was found out about the module, from a
// cache, nil for a temporary one, where it is made before if it is missing.
func (s *Sandbox) generateIn(ctx context.Context, c *code, disk *diskCache, b []byte) (err error) {
	entry := disk.find(s.cacheKey(c.digest))
	var metered *wasm.Module
	module := entry.module
	if entry.hit() {
		c.facts = entry.facts
		if err := s.surface.verify(c.shape); err != nil { // may be another host's
			return err
		}
	} else {
		if c.facts, metered, err = s.rewrite(b); err != nil {
			return err
		}
		module = metered.Encode()
		if err := entry.makeRoom(); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			entry.drop()
			c.unload()
		}
	}()
	compiling := notToCompile(ctx)
	switch {
	case entry.hit():
	case s.children != nil:
		if err := s.children.compile(ctx, s.running, entry.dir, module); err != nil {
			return err
		}
	default:
		compiling = withWorkers(ctx)
	}
	if c.cache, err = openWazeroCache(entry.dir); err != nil {
		return err
	}
	c.runtime = wazero.NewRuntimeWithConfig(ctx, s.config.WithCompilationCache(c.cache))
	c.compiled, err = c.runtime.CompileModule(compiling, module)
	switch {
	case err == nil:
		if err := entry.keep(ctx, s.config, metered, &c.facts); err != nil {
			s.log.Warn("a compiled module was not kept", "digest", c.digest, "error", err)
		}
		return nil
	case entry.hit() && cacheFailed(err): // the code is not what it was, for one
		return fmt.Errorf("sandbox: take from the cache: %w: %w", errNotTaken, err)
	case errors.Is(err, errNotTaken), cacheFailed(err):
		return fmt.Errorf("sandbox: compile: %w", err)
	default:
		return invalid(err)
	}
}

// rewriteVersion changes whenever rewrite refuses more, finds out something else, or
// facts are kept in another form; what the decoder does is part of it. wasm.MeterVersion
// stands for metering.
const rewriteVersion = 5

// cacheKey names the cache entry of a module with that digest: all that what is
// compiled depends on, and what had to be so for it to be accepted.
func (s *Sandbox) cacheKey(digest string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "module %s, rewritten %d, metered %d, start with %d bytes of stack, within %+v, compiled: %v",
		digest, rewriteVersion, wasm.MeterVersion, startDepth, s.structure, s.compiles))
	return hex.EncodeToString(sum[:])
}

// errNotTaken is how wazero fails that would have to compile in this process.
var errNotTaken = errors.New("the machine code that is kept on disk does not fit this process")

// withWorkers lets wazero compile on all processors. With more than one worker
// it looks at its context.
func withWorkers(ctx context.Context) context.Context {
	return experimental.WithCompilationWorkers(ctx, max(2, runtime.GOMAXPROCS(0)))
}

// link makes host modules in c's runtime that hold exactly what c imports, and
// what metering makes it import.
func (s *Sandbox) link(ctx context.Context, c *code) error {
	counter := c.runtime.NewHostModuleBuilder(wasm.ReservedModule)
	counter.NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refuel), []api.ValueType{api.ValueTypeI64, api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).
		Export(wasm.RefuelImport)
	builders := map[string]wazero.HostModuleBuilder{wasm.ReservedModule: counter}
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
