package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFresh checks that docs/languages.md covers the existing conversations and languages. It does
// not compare measurements.
func TestFresh(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "languages.md"))
	require.NoError(t, err)
	names, err := inSeveral(root)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		var want bytes.Buffer
		require.NoError(t, cases(&want, root, name))
		require.Contains(t, string(page), want.String(), "docs/languages.md is stale: make languages")
	}
}
