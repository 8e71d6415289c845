package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFresh(t *testing.T) {
	t.Parallel()
	const sdks = "../../guest-sdk"
	files, err := generate(sdks, "../../abi", "../contract")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(sdks, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is out of date: run make generate", name)
	}
}
