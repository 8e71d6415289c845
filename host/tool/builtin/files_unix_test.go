//go:build unix

package builtin

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpecialFiles checks that the tools reject or skip a named pipe, and do not wait for a
// writer to open it.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	require.Equal(t, "ERROR pipe is not an ordinary file", ask(t, one(t, nameReadFile, dir), `{"path":"pipe"}`))
	require.Equal(t, "ERROR pipe is not a directory", ask(t, one(t, nameListFiles, dir), `{"path":"pipe"}`))
	require.Equal(
		t,
		"ERROR pipe is not an ordinary file",
		ask(t, one(t, nameSearchFiles, dir), `{"pattern":"x","path":"pipe"}`),
	)
	require.Equal(t, "pipe  (special file)\n", ask(t, one(t, nameListFiles, dir), ``))
	require.Equal(t, "[no line matches]\n", ask(t, one(t, nameSearchFiles, dir), `{"pattern":"x"}`))
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	dir := t.TempDir()
	write(t, dir, "mine/f", "x")
	require.NoError(t, os.Chmod(filepath.Join(dir, "mine"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "mine"), 0o755) })
	require.Equal(t, "ERROR mine may not be read", ask(t, one(t, nameListFiles, dir), `{"path":"mine"}`))
	require.Contains(t, ask(t, one(t, nameSearchFiles, dir), `{"pattern":"x"}`), "1 files or directories not searched")
}
