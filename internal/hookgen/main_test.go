package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

func TestFresh(t *testing.T) {
	t.Parallel()
	files, err := generate(root)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is out of date: run make generate", name)
	}
}

// TestAddingAHook checks that the steps in docs/adding-a-hook.md name files that exist, and that
// there are at most 12.
func TestAddingAHook(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "docs/adding-a-hook.md"))
	require.NoError(t, err)
	steps := 0
	for _, line := range strings.Split(string(b), "\n") {
		if len(line) < 3 || line[0] < '0' || line[0] > '9' {
			continue
		}
		steps++
		_, rest, ok := strings.Cut(line, "`")
		path, _, closed := strings.Cut(rest, "`")
		require.True(t, ok && closed, line)
		_, err := os.Stat(filepath.Join(root, path))
		require.NoError(t, err, line)
	}
	require.LessOrEqual(t, steps, 12, "a new hook needs at most 12 hand-written files")
}
