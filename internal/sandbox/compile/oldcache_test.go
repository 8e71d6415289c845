package compile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOldCache checks that the entries of a cache that an earlier version wrote are ignored,
// because they have other keys, and evicted like others. If such an entry has a key of this
// version, its module is compiled again.
func TestOldCache(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/cache-d17eeae")))
	entries := func() []string {
		all, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		return all
	}
	old := entries()[0]
	runHook(t, Options{CacheDir: dir}, module(nil))
	require.Len(t, entries(), 2)
	require.FileExists(t, filepath.Join(old, sumFile))

	current := slices.DeleteFunc(entries(), func(entry string) bool { return entry == old })[0]
	require.NoError(t, os.RemoveAll(current))
	require.NoError(t, os.CopyFS(current, os.DirFS(old)))
	runHook(t, Options{CacheDir: dir}, module(nil))
	require.Len(t, entries(), 2)

	require.NoError(t, os.RemoveAll(current))
	runHook(t, Options{CacheDir: dir, CacheBytes: 1}, module(nil))
	require.NoDirExists(t, old)
}
