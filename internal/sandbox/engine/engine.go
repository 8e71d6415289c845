// Package engine contains the code that depends on details of wazero that are not in its public API: the layout of
// the files in its compilation cache, the order of its steps, its error messages and one private field.
//
// The rest of the sandbox uses this package and stays independent of those details. They can change with any release
// of wazero, so [Version] names the release that they are true for, and the tests of this package check each of them.
// The tests fail when go.mod requires another release: docs/upgrading-wazero.md has the steps of an upgrade.
//
// The package imports wazero and internal/wasm, and no other part of the sandbox.
package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// Version is the release of wazero that this package describes.
const Version = "v1.12.0"

// ErrNotCached is the error for a module whose machine code is not cached, under a context of [CachedOnly], which
// forbids compiling.
var ErrNotCached = errors.New("the cached machine code does not match this process")

// Config returns the configuration of all runtimes. If interpret is set, wazero interprets
// even where its compiler is available.
func Config(interpret bool) wazero.RuntimeConfig {
	config := wazero.NewRuntimeConfig()
	if interpret {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	return config.
		WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false) // DWARF is not verified, so it is not read
}

// HasCompiler reports whether wazero compiles on this platform. It depends on the operating system, the processor and
// the permissions of the process.
var HasCompiler = sync.OnceValue(func() bool { return compiles(Config(false)) })

// compiles reports whether wazero compiles under config. wazero has no function for that,
// but only its compiler fails under a context of [CachedOnly].
func compiles(config wazero.RuntimeConfig) bool {
	function := wasm.Module{
		Types: []wasm.FuncType{{}}, Functions: []uint32{0}, Code: []wasm.Code{{Body: []byte{byte(wasm.OpEnd)}}},
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, config)
	defer func() { _ = r.Close(ctx) }() // only file systems of guests could fail
	_, err := r.CompileModule(CachedOnly(ctx), function.Encode())
	return errors.Is(err, ErrNotCached)
}

// WithWorkers lets wazero compile on all processors. With more than one worker, wazero
// checks its context before it compiles a function.
func WithWorkers(ctx context.Context) context.Context {
	return experimental.WithCompilationWorkers(ctx, max(2, runtime.GOMAXPROCS(0)))
}

// CachedOnly returns a context under which wazero loads machine code from its cache and
// fails with [ErrNotCached] where it would have to compile: wazero checks its context
// after it has looked into the cache.
func CachedOnly(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(WithWorkers(ctx))
	cancel(ErrNotCached)
	return ctx
}

// opening serializes OpenCache: wazero determines its own version when the first cache is
// opened, and stores it without a lock.
var opening sync.Mutex

// OpenCache opens a directory as a compilation cache of wazero. It creates the directory if it is missing.
func OpenCache(dir string) (wazero.CompilationCache, error) {
	opening.Lock()
	defer opening.Unlock()
	return wazero.NewCompilationCacheWithDir(dir)
}

// IsCacheError reports whether a compilation failed because of the cache: for example, the disk is
// full, or the entry was removed concurrently. wazero has no exported type for the errors of its
// cache, only a prefix.
func IsCacheError(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link) || strings.HasPrefix(err.Error(), "compilationcache:")
}

// StackBytes returns the size of the stack that an exported function has allocated, and
// false if it is unknown. wazero does not export it, so StackBytes reads the private field.
func StackBytes(f api.Function) (int64, bool) {
	engine := reflect.ValueOf(f) // the kind is Invalid for nil
	if engine.Kind() != reflect.Pointer || engine.Elem().Kind() != reflect.Struct {
		return 0, false
	}
	stack := engine.Elem().FieldByName("stack")
	if stack.Kind() != reflect.Slice {
		return 0, false
	}
	return int64(stack.Cap()) * int64(stack.Type().Elem().Size()), true
}
