package modules

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpoolFileIsUnlinked checks that a spool file does not outlive a killed server.
func TestSpoolFileIsUnlinked(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file keeps its name there")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	file, remove, err := newSpool()
	require.NoError(t, err)
	require.Equal(t, dir, filepath.Dir(file.Name()))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = file.WriteString("what comes")
	require.NoError(t, err)
	got := make([]byte, 4)
	_, err = file.ReadAt(got, 6)
	require.NoError(t, err)
	require.Equal(t, "omes", string(got))
	remove()
	_, err = file.WriteString("more")
	require.ErrorIs(t, err, os.ErrClosed)
}
