// Package corpus compares measurements of middlewares with those in their READMEs.
package corpus

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	begin = "<!-- measured: go test -run TestCorpus -args -update -->\n"
	end   = "<!-- end -->"
)

var update = flag.Bool("update", false, "write the measurement to README.md")

// Measured compares a measurement with the one in the README of the test's folder. With
// -update it writes the measurement to the README instead.
func Measured(t *testing.T, text string) {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(readme), begin)
	require.True(t, ok, "README.md needs the line %s", begin)
	was, tail, ok := strings.Cut(rest, end)
	require.True(t, ok, "README.md needs the line %s", end)
	dir, err := os.Getwd()
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("README.md", []byte(head+begin+text+end+tail), 0o600))
		return
	}
	require.Equal(
		t,
		text,
		was,
		"go test ./examples/wasm-middlewares/%s -run TestCorpus -args -update writes it",
		filepath.Base(dir),
	)
}
