package guestbuild_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
)

const guest = "examples/wasm-middlewares/patch-tool-calls"

// TestBuild builds a guest concurrently, as tests of several packages do.
func TestBuild(t *testing.T) {
	t.Parallel()
	root, err := guestbuild.Root()
	require.NoError(t, err)
	var wg sync.WaitGroup
	failed := make([]error, 3)
	for i := range failed {
		wg.Go(func() { _, failed[i] = guestbuild.Module(t.Context(), root, guest) })
	}
	b := guestbuild.Build(t, guest)
	wg.Wait()
	require.NoError(t, errors.Join(failed...))
	require.Equal(t, "\x00asm\x01\x00\x00\x00", string(b[:8]), "a WebAssembly module")
	require.FileExists(t, guestbuild.Path(root, guest))
	require.NotContains(t, string(b), "vcs.revision")
}

func TestBuildOfWhatIsNoGuest(t *testing.T) {
	t.Parallel()
	root, err := guestbuild.Root()
	require.NoError(t, err)
	_, err = guestbuild.Module(t.Context(), root, "internal/nothing")
	require.ErrorContains(t, err, "build guest internal/nothing")
	_, err = guestbuild.All(t.Context(), root, []string{guest, "internal/nothing"}, 2)
	require.ErrorContains(t, err, "internal/nothing", "one that fails does not go unnoticed")
}

func TestPath(t *testing.T) {
	t.Parallel()
	for folder, want := range map[string]string{
		"examples/redact":               "redact.wasm",
		"examples/redact/rust":          "redact-rust.wasm",
		"guest-sdk/c/testdata/mirror":   "mirror-c.wasm",
		"guest-sdk/go/testdata/guest":   "guest.wasm",
		"examples/redact/rust/testdata": "testdata-rust.wasm",
	} {
		require.Equal(t, filepath.Join("root", "build", "wasm", want), guestbuild.Path("root", folder))
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"a/main.go", "a/deep/b/main.go", "a/lib/lib.go"} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	found, err := guestbuild.Find(root, "./a/...")
	require.NoError(t, err)
	require.Equal(t, []string{"a/deep/b", "a"}, found)
	found, err = guestbuild.Find(root, "./a/deep/b")
	require.NoError(t, err)
	require.Equal(t, []string{"a/deep/b"}, found)
	_, err = guestbuild.Find(root, "a/lib/...")
	require.ErrorContains(t, err, "no folder with a main.go")
}
