package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme checks that the README's program prints the documented output.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(readme), "## Embed it\n")
	require.True(t, ok)
	_, rest, ok = strings.Cut(rest, "```go\n")
	require.True(t, ok)
	program, _, ok := strings.Cut(rest, "```\n")
	require.True(t, ok)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o644))
	cmd := exec.CommandContext(t.Context(), "go", "run", file)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "launch → no tools today said policy\nI may not launch it.\n", string(out))
}
