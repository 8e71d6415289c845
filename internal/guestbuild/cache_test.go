package guestbuild

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCached checks that a guest is built again only if its key changes, and that a build whose
// sources changed meanwhile is not cached.
func TestCached(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, t.TempDir())
	}
	path := filepath.Join(t.TempDir(), "guest.wasm")
	source, builds := "one", 0
	key := func() (string, error) { return source, nil }
	build := func() error {
		builds++
		return os.WriteFile(path, []byte("built of "+source), 0o600)
	}
	check := func(want string, total int) {
		t.Helper()
		require.NoError(t, cached(path, key, build))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.Equal(t, total, builds)
	}
	check("built of one", 1)
	source = "two"
	check("built of two", 2)
	source = "one"
	check("built of one", 2)

	source = "three"
	plain := build
	build = func() error { source = "four"; return plain() }
	check("built of four", 3)
	build, source = plain, "three"
	check("built of three", 4)
}

// TestAssemblyScriptKey checks that a key depends on the sources of the guest and of the SDK, and on
// the compiler.
func TestAssemblyScriptKey(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	seen := map[string]bool{}
	compiler := "npm/1"
	changes := func(want bool) {
		t.Helper()
		key, err := assemblyScriptKey(root, "guest", compiler)
		require.NoError(t, err)
		require.Equal(t, want, !seen[key])
		seen[key] = true
	}
	write("internal/toolchain/toolchain.go", "package toolchain")
	write("guest-sdk/assemblyscript/assembly/index.ts", "")
	write("guest/assembly/index.ts", "")
	changes(true)
	changes(false)
	write("guest/assembly/index.ts", "//")
	changes(true)
	write("guest/node_modules/a.ts", "//")
	changes(false)
	write("guest-sdk/assemblyscript/assembly/index.ts", "//")
	changes(true)
	write("internal/toolchain/toolchain.go", "package toolchain //")
	changes(true)
	compiler = "npm/2"
	changes(true)
}
