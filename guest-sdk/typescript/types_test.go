// Package typescript contains the npm package @agent-runner/middleware and its tests.
package typescript

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/npmtest"
)

// compiler returns the path of tsc, TypeScript's compiler. If tsc cannot be installed, the test
// fails in CI and is skipped elsewhere.
func compiler(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it needs npm")
	}
	dir, err := npmtest.Install(filepath.Join("testdata", "npm"), filepath.Join("..", "..", "build", "npm"))
	switch {
	case err == nil:
		path, err := filepath.Abs(filepath.Join(dir, "node_modules", ".bin", "tsc"))
		require.NoError(t, err)
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("tsc: %v", err)
	default:
		t.Skipf("SKIPPED, since tsc is not there: %v", err)
	}
	return ""
}

// TestTypes checks that the package's types, the code in testdata and the examples compile.
func TestTypes(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), compiler(t), "-p", "testdata").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestBuiltIn checks that the host's built-in copy is identical to this package.
func TestBuiltIn(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("index.js")
	require.NoError(t, err)
	got, err := os.ReadFile("../../internal/module/javascript/engine/middleware.js")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "copy index.js there")
}
