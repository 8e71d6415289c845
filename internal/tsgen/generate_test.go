package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFresh(t *testing.T) {
	t.Parallel()
	const file = "../../guest-sdk/typescript/abi.d.ts"
	want, err := generate("../../abi", "../contract")
	require.NoError(t, err)
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "out of date: run make generate")
}
