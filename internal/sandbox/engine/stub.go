package engine

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

// Stub returns m with each function body replaced by a trap. With the machine code of m it
// makes the same instances as m. wazero decodes and validates every module that it is
// given, but does not read the bodies if it then finds machine code in its cache. A module
// was validated when it was compiled, and most of its bytes are bodies, so that loading a
// stub takes a fraction of the time.
//
// A stub must never be compiled, because each of its functions traps: use [CachedOnly].
func Stub(m *wasm.Module) []byte {
	stub := *m
	stub.Code = make([]wasm.Code, len(m.Code))
	for i := range stub.Code {
		stub.Code[i].Body = []byte{byte(wasm.OpUnreachable), byte(wasm.OpEnd)}
	}
	return stub.Encode()
}

// RenameCode gives the only file of machine code in the cache directory dir the name under which
// wazero looks for the code of stub. It reports false if the file does not exist, for example because
// wazero interprets, or if the name cannot be determined. probe makes a temporary directory, which
// RenameCode removes.
func RenameCode(
	ctx context.Context,
	config wazero.RuntimeConfig,
	dir string,
	stub []byte,
	probe func() (string, error),
) (bool, error) {
	code, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(code) != 1 {
		return false, err
	}
	probeDir, err := probe()
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(probeDir) }() // if that fails, the caller removes the rest
	name, err := codeName(ctx, config, probeDir, stub)
	if err != nil || name == "" {
		return false, err
	}
	return true, os.Rename(code[0], filepath.Join(filepath.Dir(code[0]), name))
}

// codeName returns the name under which wazero looks for a module's machine code, or ""
// if it cannot be determined. The name depends on the module, wazero's version and the
// processor, and no function returns it. So codeName puts a file where wazero expects the
// directory of its version, and takes the name from the error.
func codeName(ctx context.Context, config wazero.RuntimeConfig, dir string, module []byte) (string, error) {
	cache, err := OpenCache(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = cache.Close(ctx) }() // always nil
	versions, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(versions) != 1 {
		return "", err
	}
	if err := os.Remove(versions[0]); err != nil {
		return "", err
	}
	if err := os.WriteFile(versions[0], nil, 0o600); err != nil {
		return "", err
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config.WithCompilationCache(cache))
	defer func() { _ = runtime.Close(ctx) }() // only file systems of guests could fail
	_, err = runtime.CompileModule(CachedOnly(ctx), module)
	var path *fs.PathError
	switch {
	case err == nil:
		return "", errors.New("compilationcache: it is not used")
	case errors.Is(err, ErrNotCached):
		return "", nil // this system treats the file as an empty directory
	case !errors.As(err, &path) || filepath.Dir(path.Path) != filepath.Clean(versions[0]):
		return "", fmt.Errorf("compilationcache: find the name of an entry: %w", err)
	}
	return filepath.Base(path.Path), nil
}
