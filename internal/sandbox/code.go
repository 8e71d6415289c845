package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/sandbox/compile"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// code is a compiled and linked module. All images of the same bytes share it.
type code struct {
	digest string
	size   int64
	ready  chan struct{} // closed when module or err is set
	err    error
	*compile.Module

	slow     recently // a slice of its fuel took long
	heldHost recently // and it is known that the guest used the processor all the time

	once    sync.Once // for close
	refs    int       // images, instances and waiting loads; guarded by Sandbox.mu
	pending bool      // it is being compiled, which counts as one of refs; guarded by Sandbox.mu
	// abandon stops the compilation.
	abandon context.CancelCauseFunc
}

// errAbandoned ends a compilation whose callers have all left.
var errAbandoned = errors.New("sandbox: compilation abandoned: its callers have left")

// acquire returns the code of these bytes, which is compiled once for all concurrent
// callers. The caller releases it.
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
		// It has its own goroutine, so that the callers do not depend on the context of the
		// first one. It is canceled when all of them have left.
		var compiling context.Context
		compiling, c.abandon = context.WithCancelCause(context.WithoutCancel(ctx))
		go func() {
			defer c.abandon(nil)
			defer s.compiled(c)
			c.Module, c.err = s.compile(compiling, digest, b)
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

// compile compiles and links a module.
func (s *Sandbox) compile(ctx context.Context, digest string, b []byte) (*compile.Module, error) {
	m, err := s.compiler.Compile(ctx, tenantOf(ctx).Name, digest, b)
	if err != nil {
		return nil, err
	}
	if err := s.link(ctx, m); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// compiled ends the compilation of c.
func (s *Sandbox) compiled(c *code) {
	s.mu.Lock()
	c.pending = false
	s.mu.Unlock()
	s.release(c) // first, so that nothing of a rejected module remains when Load returns
	close(c.ready)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compiling--
	s.idle.Broadcast()
}

// retain adds a reference to c, of which the caller must have one already.
func (s *Sandbox) retain(c *code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.refs++
}

// release removes a reference to c, and closes it with the last one. If c is being compiled
// and all callers have left, release abandons the compilation.
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

// close frees the machine code. Nothing may run in it. Closing twice has no effect, because
// an image may be closed while its sandbox is.
func (c *code) close() {
	c.once.Do(func() {
		if c.Module != nil {
			c.Module.Close()
		}
	})
}

// link makes host modules in m's runtime that contain exactly what m imports, and what
// metering makes it import.
func (s *Sandbox) link(ctx context.Context, m *compile.Module) error {
	counter := m.Runtime.NewHostModuleBuilder(wasm.ReservedModule)
	counter.NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refuel), []api.ValueType{api.ValueTypeI64, api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).
		Export(wasm.RefuelImport)
	builders := map[string]wazero.HostModuleBuilder{wasm.ReservedModule: counter}
	for _, info := range m.Outline.Imports {
		builder, ok := builders[info.Module]
		if !ok {
			builder = m.Runtime.NewHostModuleBuilder(info.Module)
			builders[info.Module] = builder
		}
		imp := s.surface.imports[info.Module][info.Name]
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
