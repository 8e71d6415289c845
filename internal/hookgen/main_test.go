package main

import (
	"os"
	"path/filepath"
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

func TestWithoutMarks(t *testing.T) {
	t.Parallel()
	_, err := within(root, []byte("a text"), &output{part: "hooks"}, "a table")
	require.ErrorContains(t, err, "marks")
}
