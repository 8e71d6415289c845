package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOffends(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"// drain is how long the output is read":       true,
		"// what waits here goes on when nobody reads":  true,
		"// Whose turn it is, who waits is told":        true,
		"// drainTimeout bounds reading from the pipe.": false,
		"// Close releases what the module holds.":      false,
	} {
		require.Equal(t, want, isProse("a.go", line) && matches(line), line)
	}
	require.False(t, isProse("a.go", `	s := "nobody"`))
	require.True(t, isProse("a.md", "nobody"))
}

// TestListOnlyShrinks checks that -update lowers numbers, and neither raises numbers nor adds
// files.
func TestListOnlyShrinks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "allowed.txt")
	require.NoError(t, os.WriteFile(path, []byte("2 a.go\n1 b.go\n3 c.go\n"), 0o600))
	allowed, err := readAllowed(path)
	require.NoError(t, err)
	found := map[string][]string{"a.go": {"1: x"}, "c.go": {"1", "2", "3", "4"}, "d.go": {"1"}}
	require.ErrorContains(t, compare(allowed, found), "4 files")
	require.NoError(t, writeAllowed(path, allowed, found))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "1 a.go\n3 c.go\n", string(b))
	require.NoError(t, compare(map[string]int{"a.go": 1}, map[string][]string{"a.go": {"1"}}))
}
