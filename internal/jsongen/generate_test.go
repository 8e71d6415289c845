package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFresh(t *testing.T) {
	t.Parallel()
	const codecs = "../abijson"
	files, err := generate("../../abi", "../contract", codecs)
	require.NoError(t, err)
	require.Len(t, files, 2)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(codecs, name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is out of date: run make generate", name)
	}
}
