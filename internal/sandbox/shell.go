package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// shellOf is a module with the outside of m, all that instances of m are made of
// but code, and the machine code of m to go with it in the cache. wazero decodes
// and validates whatever it is given, also if it then takes the machine code from
// disk, for which it looks at no function's body. What was validated once, before
// it was compiled, needs that no more; the bodies are most of a module, and most
// of the time that a second load would take.
//
// A shell must never be compiled: each of its functions traps.
func shellOf(m *wasm.Module) []byte {
	shell := *m
	shell.Code = make([]wasm.Code, len(m.Code))
	for i := range shell.Code {
		shell.Code[i].Body = []byte{byte(wasm.OpUnreachable), byte(wasm.OpEnd)}
	}
	return shell.Encode()
}

// putShell gives an entry's machine code the name under which wazero looks for
// that of a shell, and reports whether it did. It does not where wazero interprets,
// so that there is no machine code, and where it does not tell the name.
func (e *cacheEntry) putShell(ctx context.Context, config wazero.RuntimeConfig, shell []byte) (bool, error) {
	code, err := filepath.Glob(filepath.Join(e.dir, "*", "*"))
	if err != nil || len(code) != 1 {
		return false, err
	}
	name, err := e.nameOf(ctx, config, shell)
	if err != nil || name == "" {
		return false, err
	}
	return true, os.Rename(code[0], filepath.Join(filepath.Dir(code[0]), name))
}

// nameOf is the name under which wazero looks for a module's machine code; empty
// if that cannot be found out. It is wazero's own, of the module, its version and
// the processor, so wazero is made to say it: by an error, since what should be
// the directory is a file.
func (e *cacheEntry) nameOf(ctx context.Context, config wazero.RuntimeConfig, module []byte) (string, error) {
	probe, err := os.MkdirTemp(e.cache.dir, tempName)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(probe) }() // what stays is removed by shrink
	cache, err := openWazeroCache(probe)
	if err != nil {
		return "", err
	}
	defer func() { _ = cache.Close(ctx) }() // always nil
	dirs, err := filepath.Glob(filepath.Join(probe, "*"))
	if err != nil || len(dirs) != 1 {
		return "", err
	}
	if err := os.Remove(dirs[0]); err != nil {
		return "", err
	}
	if err := os.WriteFile(dirs[0], nil, 0o600); err != nil {
		return "", err
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config.WithCompilationCache(cache))
	defer func() { _ = runtime.Close(ctx) }() // only file systems of guests could fail
	_, err = runtime.CompileModule(notToCompile(ctx), module)
	var path *fs.PathError
	switch {
	case err == nil:
		return "", errors.New("compilationcache: it is not used")
	case errors.Is(err, errNotTaken):
		return "", nil // this system takes the file for an empty directory
	case !errors.As(err, &path) || filepath.Dir(path.Path) != filepath.Clean(dirs[0]):
		return "", fmt.Errorf("compilationcache: find the name of an entry: %w", err)
	}
	return filepath.Base(path.Path), nil
}

// notToCompile is a context under which wazero takes machine code from its cache,
// and fails with errNotTaken where it would have to compile.
func notToCompile(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(withWorkers(ctx))
	cancel(errNotTaken)
	return ctx
}
