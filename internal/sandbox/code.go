package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/refcache"
	"github.com/agent-runner/agent-runner/internal/sandbox/compile"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// code is a compiled and linked module. All images of the same bytes share it.
type code struct {
	digest string
	size   int64
	*compile.Module

	slow     recently // a slice of its fuel took a long time
	heldHost recently // the guest used the processor for more than maxHeld in one slice
}

// A codeRef is a reference of an image or an instance to its code.
type codeRef = refcache.Ref[string, *code]

// newCodes returns the cache of codes by digest. A code is closed with its last reference.
func newCodes() *refcache.Cache[string, *code] {
	return refcache.New[string](refcache.Options[*code]{Close: func(c *code) { c.Close() }})
}

// acquire returns the code of these bytes, which is compiled once for all concurrent callers. The compilation is
// canceled when the contexts of all of them are done. The caller releases the reference.
func (s *Sandbox) acquire(ctx context.Context, b []byte) (*codeRef, error) {
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])
	return s.codes.Acquire(ctx, digest, func(ctx context.Context) (*code, error) {
		if !s.enterCompilation() {
			return nil, ErrClosed
		}
		defer s.endCompilation()
		m, err := s.compile(ctx, digest, b)
		if err != nil {
			return nil, err
		}
		return &code{digest: digest, size: int64(len(b)), Module: m}, nil
	})
}

// Compiled reports whether the module with a SHA-256 digest in hexadecimal is in the cache on disk.
func (s *Sandbox) Compiled(digest string) bool { return s.compiler.Cached(digest) }

// enterCompilation counts a compilation in progress and returns true. If the sandbox is closed, it
// returns false.
func (s *Sandbox) enterCompilation() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.compiling++
	return true
}

// endCompilation records the end of a compilation that enterCompilation counted.
func (s *Sandbox) endCompilation() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compiling--
	s.idle.Broadcast()
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

// link makes host modules in m's runtime that contain exactly the functions that m imports, including the one that
// metering added.
func (s *Sandbox) link(ctx context.Context, m *compile.Module) error {
	counter := m.Runtime.NewHostModuleBuilder(wasm.ReservedModule)
	counter.NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refuel), []api.ValueType{api.ValueTypeI64, api.ValueTypeI64},
			[]api.ValueType{api.ValueTypeI64}).
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
