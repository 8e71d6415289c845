package testcache

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDigest checks that a change of the compile pipeline leads to another cache, and a change of
// its tests does not.
func TestDigest(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	seen := map[string]bool{}
	changes := func(want bool) {
		t.Helper()
		d, err := digestOf(root)
		require.NoError(t, err)
		require.Equal(t, want, !seen[d])
		seen[d] = true
	}
	for _, folder := range pipeline {
		write(folder+"/a.go", "package a")
		changes(true)
	}
	changes(false)
	write("internal/wasm/a_test.go", "package a")
	changes(false)
	write("internal/sandbox/compile/a.go", "package b")
	changes(true)
}

// TestPipelineExists checks that the digest covers sources of this repository.
func TestPipelineExists(t *testing.T) {
	t.Parallel()
	for _, folder := range pipeline {
		paths, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(folder), "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, paths, folder)
	}
	_, err := digest()
	require.NoError(t, err)
}

// TestRemoveUnused checks that RemoveUnused removes an old entry, but not one that was used since.
func TestRemoveUnused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Now().Add(-maxAge - time.Hour)
	for _, name := range []string{"used", "unused"} {
		entry := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(entry, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(entry, "file"), nil, 0o644))
		require.NoError(t, os.Chtimes(entry, old, old))
	}
	Use(filepath.Join(dir, "used"))
	RemoveUnused(dir)
	require.FileExists(t, filepath.Join(dir, "used", "file"))
	require.NoDirExists(t, filepath.Join(dir, "unused"))
}
