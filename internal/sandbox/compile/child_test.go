package compile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

func newPool(t testing.TB, opts child.Options) *child.Pool {
	t.Helper()
	p, err := child.NewPool(opts)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close(context.Canceled) })
	return p
}

// closedPool returns a pool whose children fail with os.ErrClosed.
func closedPool(t testing.TB) *child.Pool {
	p := newPool(t, child.Options{})
	p.Close(os.ErrClosed)
	return p
}

// costly returns a module that is within all limits, but takes wazero a long time to compile.
func costly() []byte {
	body := bytes.Repeat([]byte{0x20, 0, 0x20, 0, 0x6c, 0x20, 0, 0x6a, 0x21, 0}, 25_000) // n = n*n + n
	body = append(body, 0x20, 0, 0x0b)
	return module(func(m *wasm.Module) {
		const functions = 30
		m.Functions, m.Code = make([]uint32, functions), make([]wasm.Code, functions)
		for i := range m.Code {
			m.Code[i].Body = body
		}
	})
}

// TestCompileInChild checks that a child compiles modules that are not cached, and only those.
func TestCompileInChild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runHook(t, Options{CacheDir: dir, Children: newPool(t, child.Options{})}, module(nil))
	require.FileExists(t, codeFile(t, dir))

	cached := newCompiler(t, Options{CacheDir: dir, Children: closedPool(t)})
	compile(t, cached, module(nil))
	_, err := tryCompile(t, cached, guest(t))
	require.ErrorIs(t, err, os.ErrClosed)
	var refused *verify.RefusedError
	require.False(t, errors.As(err, &refused), "this is not the module's mistake: %v", err)

	// A child also compiles without a cache directory.
	runHook(t, Options{Children: newPool(t, child.Options{})}, module(nil))
}

// TestCompileInChildAgain checks that an entry whose machine code is complete but does not fit this process is
// compiled again, by a child and not by this process.
func TestCompileInChildAgain(t *testing.T) {
	t.Parallel()
	dir, pool := t.TempDir(), newPool(t, child.Options{})
	runHook(t, Options{CacheDir: dir, Children: pool}, module(nil))
	file := codeFile(t, dir)
	entry := filepath.Dir(filepath.Dir(file))
	require.NoError(t, os.Rename(file, filepath.Join(filepath.Dir(file), strings.Repeat("0", 64))))
	sum, err := sumOf(entry, filepath.Base(entry), nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(entry, sumFile), []byte(sum), 0o600))
	saved := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, os.CopyFS(saved, os.DirFS(entry)))

	_, err = tryCompile(t, newCompiler(t, Options{CacheDir: dir, Children: closedPool(t)}), module(nil))
	require.ErrorIs(t, err, os.ErrClosed, "this process does not compile it")
	require.NotErrorIs(t, err, engine.ErrNotCached)

	require.NoError(t, os.CopyFS(entry, os.DirFS(saved)))
	runHook(t, Options{CacheDir: dir, Children: pool}, module(nil))
	require.Equal(t, file, codeFile(t, dir))
}

// TestCompileInChildRejects checks that a module that exceeds a limit, or that is not valid, is
// rejected and leaves nothing in the cache.
func TestCompileInChildRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options child.Options
		module  []byte
		want    string
	}{
		"time":   {child.Options{Timeout: 300 * time.Millisecond}, costly(), "compiling it took more than 300ms; split its largest functions"},
		"memory": {child.Options{MemoryBytes: 32 << 20, Timeout: time.Minute}, costly(), "compiling it took more than 32 MiB of memory; split"},
		"types": {child.Options{}, module(func(m *wasm.Module) { m.Code[0].Body = []byte{0x0b} }),
			"is not valid: invalid function[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := tryCompile(t, newCompiler(t, Options{CacheDir: dir, Children: newPool(t, c.options)}), c.module)
			var refused *verify.RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, c.want)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}
